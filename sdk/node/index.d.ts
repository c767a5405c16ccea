// SPDX-License-Identifier: Apache-2.0

/**
 * Publishes the current span of this thread from now on. May be called again.
 *
 * @returns whether it does; if not, one line on stderr says why, and the service runs as before
 */
export function start(): boolean;

/** @returns what this thread publishes, as trace id and span id in hexadecimal digits; null if it is no span */
export function read(): [traceId: string, spanId: string] | null;

/** @returns the attributes that this thread publishes, as they lie in its record; null if it publishes no span */
export function readAttributes(): Uint8Array | null;

/** @returns how often the name of a span was not published: the process had a thousand others */
export function namesRefused(): number;

/** @returns how many spans had ids that could not be read; their threads published none */
export function failures(): number;
