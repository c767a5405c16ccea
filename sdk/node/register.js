// SPDX-License-Identifier: Apache-2.0
'use strict';
// NODE_OPTIONS="--require spanprof-otel/register": the service itself stays as it is.
require('./index.js').start();
