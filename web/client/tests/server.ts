import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const program = join(import.meta.dirname, 'tidings');

/** A server of our own: a process on a free port, with a folder that goes with it. */
export class Server {
  url = '';
  #process: ChildProcess | undefined;
  readonly #folder = mkdtempSync(join(tmpdir(), 'tidings-client-'));
  readonly #log: string[] = [];
  readonly #flags: readonly string[];

  private constructor(flags: readonly string[]) {
    this.#flags = flags;
  }

  static async start(flags: readonly string[] = []): Promise<Server> {
    const server = new Server(flags);
    process.once('exit', () => server.#process?.kill('SIGKILL'));
    await server.#launch('127.0.0.1:0');
    return server;
  }

  async #launch(address: string): Promise<void> {
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(TIDINGS_|DATABASE_URL$|REDIS_URL$)/.test(name)));
    const own = spawn(program, ['serve', '--listen', address, '--data', this.#folder, ...this.#flags], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#process = own;
    createInterface(own.stderr).on('line', (line) => this.#log.push(line));
    this.url = await new Promise<string>((resolve, reject) => {
      createInterface(own.stdout).on('line', (line) => {
        const url = /http:\/\/[\d.:]+/.exec(line)?.[0];
        if (url) resolve(`${url}/graphql`);
      });
      own.once('exit', (code) => reject(new Error(`the server ended with ${code}:\n${this.#log.slice(-20).join('\n')}`)));
    });
  }

  /** kill ends the server at once, as a crash does. */
  async kill(): Promise<void> {
    const own = this.#process!;
    own.kill('SIGKILL');
    if (own.exitCode === null && own.signalCode === null) await once(own, 'exit');
  }

  /** drain ends the server as an operator does, and answers when it is gone. */
  async drain(): Promise<void> {
    const own = this.#process!;
    own.kill('SIGTERM');
    if (own.exitCode === null && own.signalCode === null) await once(own, 'exit');
  }

  /** forget removes the data of a server that does not run: it starts again as another one. */
  forget(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** restart starts it again on the same port and folder. */
  async restart(): Promise<void> {
    await this.#launch(new URL(this.url).host);
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** ask sends an operation as a user, past every client, and fails with the first error. */
  async ask(user: string, query: string, variables: object = {}): Promise<any> {
    const response = await fetch(this.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer dev:${user}` },
      body: JSON.stringify({ query, variables }),
    });
    const { data, errors } = (await response.json()) as { data: unknown; errors?: { message: string }[] };
    if (errors) throw new Error(`${errors[0]!.message}, asked by ${user}: ${query}`);
    return data;
  }
}

/** without leaves out what clients add to data of their own, at every depth. */
export function without<Data>(data: Data): Data {
  if (Array.isArray(data)) return data.map(without) as Data;
  if (typeof data !== 'object' || data === null) return data;
  return Object.fromEntries(Object.entries(data).flatMap(([name, value]) => (name.startsWith('__') ? [] : [[name, without(value)]]))) as Data;
}
