/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parser
 *
 * What a worker without rights does with what it is asked: the only place that knows every parser that runs
 * there.
 */

/* For zygote_serve(). @socket: what is asked comes by it, descriptors too. */
void worker_main(int socket);
