/** Declares verbs of the CLI, and what all of them share: exit codes, output and options. */

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Command, CommandOptions } from 'commander'
import { UnreachableError } from './client.ts'
import { callerPath } from './settings.ts'
import { visible } from './terminal.ts'

/** An option: its flags, its description and its default. */
export type Flag = readonly [flags: string, description: string, value?: string]

/** The option for another workspace than TENON_WORKSPACE_ID. */
export const WORKSPACE: Flag = ['--workspace <id>', 'Workspace of the command. Default: TENON_WORKSPACE_ID.']

export interface WorkspaceOption {
  readonly workspace?: string
}

/** The option that confirms what cannot be undone. */
export const YES_FLAG: Flag = ['--yes', 'Confirm that what is removed cannot be restored.']

export interface YesOption {
  readonly yes?: boolean
}

/** Says on stderr what a command would remove, and that `--yes` confirms it. @returns exit code 1 */
export function refuseWithoutYes(claim: string, removed: readonly string[], advice = ''): number {
  const lines = [claim, ...removed.map((line) => `  ${line}`), `Add --yes to confirm. ${advice}`.trim()]
  for (const line of lines) process.stderr.write(`${visible(line)}\n`)
  return 1
}

/** The exit code after an error: a command that no server has answered may be repeated. */
const exitCodeOf = (error: unknown): number => (error instanceof UnreachableError ? 3 : 1)

/**
 * Adds a verb to its parent.
 * @param work gets the arguments and then the options of the command line; returns the exit code
 */
export function addVerb<A extends unknown[]>(
  parent: Command,
  usage: string,
  description: string,
  work: (...args: A) => Promise<number>,
  flags: readonly Flag[] = [],
  settings: CommandOptions = {},
): Command {
  const command = parent.command(usage, settings).description(description)
  for (const flag of flags) command.option(...flag)
  return command.action(async (...args) => {
    try {
      process.exitCode = await work(...(args as unknown as A))
    } catch (error) {
      printError(error)
      process.exitCode = exitCodeOf(error)
    }
  })
}

/** Prints the message of an error on stderr. */
export const printError = (error: unknown): void =>
  void process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)

/** Prints one line on stdout. */
export const printLine = (line: string): void => void process.stdout.write(`${line}\n`)

/** Prints one JSON value on stdout. @returns exit code 0 */
export function printJson(value: unknown): number {
  process.stdout.write(`${JSON.stringify(value, null, 2)}\n`)
  return 0
}

/** Prints a table; each column is as wide as its widest cell. */
export const printTable = (head: readonly string[], rows: readonly (readonly string[])[]): void =>
  new Table(head).print(rows)

/** A table that is printed in parts. Columns never become narrower, so that parts of equal content align. */
export class Table {
  #head: readonly string[] | undefined
  #widths: readonly number[]

  constructor(head: readonly string[]) {
    this.#head = head
    this.#widths = head.map(({ length }) => length)
  }

  /** Prints the rows, and the head before the first ones. */
  print(rows: readonly (readonly string[])[]): void {
    const cells = rows.map((row) => row.map(visible))
    this.#widths = this.#widths.map((width, column) =>
      cells.reduce((widest, row) => Math.max(widest, row[column]?.length ?? 0), width),
    )
    for (const row of [...(this.#head === undefined ? [] : [this.#head]), ...cells]) {
      const line = row.map((cell, column) => cell.padEnd(this.#widths[column] ?? 0))
      process.stdout.write(`${line.join('  ').trimEnd()}\n`)
    }
    this.#head = undefined
  }
}

/** A time as tables show it: `2026-03-14 02:00:00`. @param time RFC 3339, in UTC */
export const dateTimeText = (time: string): string => time.slice(0, 19).replace('T', ' ')

/**
 * Creates the folder if necessary, writes the files in their order, and prints the path of each.
 * @param folder relative to the caller
 * @throws Error for the first file that exists; those before it are written
 */
export async function writeNewFiles(
  folder: string,
  files: readonly (readonly [name: string, text: string])[],
): Promise<void> {
  await mkdir(callerPath(folder), { recursive: true })
  for (const [name, text] of files) {
    const file = join(folder, name)
    await writeFile(callerPath(file), text, { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'EEXIST' ? new Error(`The file ${file} already exists.`) : error
    })
    process.stdout.write(`${file}\n`)
  }
}
