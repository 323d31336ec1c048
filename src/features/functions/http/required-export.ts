/** Refuses an invocation whose export the module of the function does not have. */

import { Problem } from '../../../core/problem.ts'
import type { EntryPoint } from '../sandbox/compile.ts'

const NEEDED = {
  call: { name: 'default', detail: 'The function has no default export, so it is called at /http alone.' },
  fetch: { name: 'fetch', detail: 'The function exports no `fetch`, so it serves no HTTP requests.' },
} as const

/**
 * @param exports those of the version, as deployment has stored them
 * @throws Problem `state_conflict`
 */
export function requireExport(exports: readonly EntryPoint[], kind: 'call' | 'fetch'): void {
  const { name, detail } = NEEDED[kind]
  if (!exports.includes(name)) throw new Problem('state_conflict', { detail })
}
