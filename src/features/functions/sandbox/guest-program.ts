/** The main module of a function's process: takes code and invocations on stdin, and answers on stdout. It enforces nothing. */

import { builtinModules } from 'node:module'
import { CHANNEL } from './guest/channel.ts'
import { ERRORS } from './guest/errors.ts'
import { MAIN } from './guest/main.ts'
import { HOST_CALLS, TENON_MODULE } from './guest/platform-calls.ts'
import { SURFACE } from './guest/surface.ts'

const IMPORTS = `import { AsyncLocalStorage } from 'node:async_hooks'`

/**
 * JavaScript for Deno, passed as its main module. Code of the function in the same realm can change all of it, which affects
 * that process alone: it serves one version of one function, and the host trusts no frame (frames.ts).
 *
 * This text never names the code to run: Deno loads the main module and its literal imports without checking permissions,
 * files included. An `import(…)` of a value is checked.
 */
const GUEST = [IMPORTS, CHANNEL, ERRORS, HOST_CALLS, SURFACE, MAIN].join('\n')

const moduleUrl = (text: string) => `data:text/javascript;base64,${Buffer.from(text).toString('base64')}`

/** The main module. Its media type differs from that of user code, which tells positions in the two apart. */
export const GUEST_URL = moduleUrl(GUEST)

/** Literal imports are refused at deployment; a computed one would still load a module of Node, some of which check nothing. */
const REFUSED = moduleUrl(`throw new Error('Functions cannot import modules of Node.')`)
const NODE_MODULES = builtinModules.map((name) => `node:${name.replace(/^node:/, '')}`)

const IMPORT_MAP = JSON.stringify({
  imports: {
    ...Object.fromEntries(NODE_MODULES.map((name) => [name, REFUSED])),
    // This program imports it, and it reaches nothing outside the code.
    'node:async_hooks': 'node:async_hooks',
    tenon: moduleUrl(TENON_MODULE),
  },
})

/** Lets code import `tenon`, and nothing else. */
export const IMPORT_MAP_URL = `data:application/json;base64,${Buffer.from(IMPORT_MAP).toString('base64')}`

/** An invocation, as the JSON of its frame. */
export interface GuestJob {
  /** In hexadecimal digits. */
  readonly nonce: string
  readonly kind: 'call' | 'fetch'
  readonly input: unknown
  readonly context: unknown
  readonly limits: Readonly<Record<string, number>>
}

/** The error that user code threw, unverified: every member may be missing or of another type. */
export interface GuestError {
  readonly name?: unknown
  readonly message?: unknown
  readonly line?: unknown
  readonly column?: unknown
  readonly file?: unknown
  readonly memory?: unknown
  /** True if the default export returned a Response. */
  readonly response?: unknown
  /** True if the process must not be used again: an unhandled rejection, or an error while its code was loaded. */
  readonly fatal?: unknown
}
