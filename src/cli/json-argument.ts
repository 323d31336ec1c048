/** Reads values that a user gives on the command line: text, `@file`, or `-` for the standard input. */

import { existsSync } from 'node:fs'
import { text as textOf } from 'node:stream/consumers'
import { parse } from 'yaml'
import { callerPath, readCallerFile } from './settings.ts'

/** The notation, for the help of options. */
export const JSON_NOTATION = 'JSON or YAML, @file, or - for stdin'

/** Reads a text: the argument itself, the content of `@file`, or the standard input. */
export async function textArgument(argument: string): Promise<string> {
  if (argument === '-') return textOf(process.stdin)
  return argument.startsWith('@') ? readCallerFile(argument.slice(1)) : argument
}

/** Reads a JSON or YAML value. @param what names it in the error @throws Error if it is neither, or names a file without `@` */
export async function jsonArgument(argument: string, what: string): Promise<unknown> {
  const isFile = argument.startsWith('@')
  const value = yamlIn(await textArgument(argument), isFile ? argument.slice(1) : what)
  // A name without `@` is a valid YAML text, and hardly ever meant as one.
  if (value === argument && existsSync(callerPath(argument)))
    throw new Error(`${what} is the text ${argument}. Write @${argument} to read the file.`)
  return value
}

/** Parses YAML, of which JSON is a part. @throws Error that names the file or argument */
export function yamlIn(text: string, name: string): unknown {
  try {
    return parse(text)
  } catch (error) {
    throw new Error(`${name}: ${error instanceof Error ? error.message : String(error)}`)
  }
}
