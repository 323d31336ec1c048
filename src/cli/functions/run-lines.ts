/** Prints the lines of runs, and the errors of those that failed. */

import { type ApiClient, placeOf } from '../client.ts'
import { dateTimeText, printLine } from '../verb.ts'

export interface Run {
  readonly id: string
  readonly status: string
  readonly version: number
  readonly trigger: { readonly kind: string }
  readonly duration_ms: number | null
  readonly created_at: string
  readonly ended_at: string | null
  readonly error: RunError | null
}

interface RunError {
  readonly code: string
  /** Absent if the caller may not see payloads. */
  readonly detail?: string
  readonly file?: string
  readonly line?: number
  readonly column?: number
}

export interface Line {
  readonly seq: number
  readonly at: string
  readonly level: string
  readonly text: string
}

/** `function_error at index.ts:3:9: no` */
export const errorText = (error: RunError): string =>
  `${error.code}${placeOf(error)}: ${error.detail ?? 'its text is a payload, which you may not see'}`

/** Prints the lines that the run has now. */
export async function printRun(client: ApiClient, path: string, run: Run): Promise<void> {
  for (const line of await client.list<Line>(`${path}/runs/${run.id}/logs`)) printRunLine(run.id, line)
  printRunError(run)
}

export const printRunLine = (id: string, { at, level, text }: Line): void =>
  printLine(`${dateTimeText(at)} ${id} ${level.padEnd(5)} ${text}`)

export function printRunError({ id, status, error }: Run): void {
  if (status === 'failed' && error !== null) printLine(`${' '.repeat(19)} ${id} failed ${errorText(error)}`)
}
