// Builds the package: generates its parts of the schema, then compiles it into dist.
import { execFileSync } from 'node:child_process';
import { copyFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import './schema.mjs';

const here = dirname(fileURLToPath(import.meta.url));
rmSync(join(here, 'dist'), { recursive: true, force: true });
copyFileSync(join(here, '..', '..', 'LICENSE'), join(here, 'LICENSE'));
execFileSync(join(here, 'node_modules', '.bin', 'tsc'), ['-p', here], { stdio: 'inherit' });
