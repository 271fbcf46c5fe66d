// There is no cache: every scenario runs but for predictions, which need one, and the late answer, which nothing overtakes on one socket.
import { makers } from './connections.js';
import { prove } from './scenarios.js';
import { screens } from './screens.js';

prove('graphql-ws', ({ user, url }) => screens(makers['graphql-ws']!(user, url)), [], false);
