// There is no cache: every scenario runs but for predictions, which need one, and the late answer, which is proved where one is.
import { makers } from './connections.js';
import { prove } from './scenarios.js';
import { screens } from './screens.js';

for (const name of ['graphql-sse with a stream each', 'graphql-sse with one stream']) {
  prove(name, ({ user, url }) => screens(makers[name]!(user, url)), [], false);
}
