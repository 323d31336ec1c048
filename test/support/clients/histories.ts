/** What tests look for in Temporal's histories. */

import { readFile } from 'node:fs/promises'

/** All that the worker runs, as its entry names it. */
export async function workflowTypes(): Promise<string[]> {
  const entry = await readFile('src/workflows/index.ts', 'utf8')
  return [...entry.matchAll(/^export \{ ([^}]+) \} from/gm)].flatMap(([, types = '']) => types.split(', '))
}

/** Every text in a message of Temporal's, whatever it is in: strings as they are, bytes as text. */
export function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (value instanceof Uint8Array) return [Buffer.from(value).toString('latin1')]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => [name, ...textsIn(member)])
}
