/** Searches Temporal's histories. */

import { readFile } from 'node:fs/promises'

/** All workflow types that the worker runs, by the names of its exports. */
export async function workflowTypes(): Promise<string[]> {
  const entry = await readFile('src/workflows/index.ts', 'utf8')
  return [...entry.matchAll(/^export \{ ([^}]+) \} from/gm)].flatMap(([, types = '']) => types.split(', '))
}

/** Every text in a Temporal message: strings unchanged, bytes decoded as text. */
export function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (value instanceof Uint8Array) return [Buffer.from(value).toString('latin1')]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => [name, ...textsIn(member)])
}
