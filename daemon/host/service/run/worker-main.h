/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Worker Main
 *
 * What a worker without rights runs: it receives one request and hands it to the parser of that kind. No
 * other file knows every parser that runs in workers.
 */

/*
 * For zygote_serve(). @socket brings the request and its descriptor, and takes the answer. Ends the process.
 */
void worker_main(int socket);
