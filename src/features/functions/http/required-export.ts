/** Which export of its module an invocation of a function needs. */

import { Problem } from '../../../core/problem.ts'
import { exportedNames } from '../sandbox/compile.ts'

const NEEDED = {
  call: { name: 'default', detail: 'The function has no default export, so it is called at /http alone.' },
  fetch: { name: 'fetch', detail: 'The function exports no `fetch`, so it serves no HTTP requests.' },
} as const

/**
 * @param compiled the module as deployment has compiled it
 * @throws Problem `state_conflict`
 */
export function requireExport(compiled: string, kind: 'call' | 'fetch'): void {
  const { name, detail } = NEEDED[kind]
  if (!exportedNames(compiled).includes(name)) throw new Problem('state_conflict', { detail })
}
