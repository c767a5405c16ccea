/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parser
 *
 * What a worker without rights does with what it is asked, once: the only place that knows every parser that runs there.
 */

/* For nursery_serve(). @socket: one request comes, with a descriptor. */
void parser_work(int socket);
