/** Searches Temporal's histories. */

import { readFile } from 'node:fs/promises'

/** All workflow definitions that the worker runs. */
export async function workflowDefinitions(): Promise<string[]> {
  const entry = await readFile('src/workflows/index.ts', 'utf8')
  return [...entry.matchAll(/^ {2}(\w+),$/gm)].map(([, name = '']) => name)
}

/** The definition that runs under a workflow type, which names the flow or function. */
export function definitionOf(workflowId: string, type: string): string {
  const kind = /^(flow|fn)_/.exec(workflowId.split(':')[2] ?? '')?.[1]
  if (kind === undefined || type === 'registration') return type
  if (type.endsWith(' (schedule)')) return 'scheduledStart'
  return kind === 'flow' ? 'flowExecution' : 'functionRun'
}

/** Every text in a Temporal message: strings unchanged, bytes decoded as text. */
export function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (value instanceof Uint8Array) return [Buffer.from(value).toString('latin1')]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => [name, ...textsIn(member)])
}
