/** Exit codes, output and options that all verbs share. */

/** Wraps a verb: prints an error as its message, with exit code 1. */
export function verb<A extends unknown[]>(
  work: (...args: A) => Promise<number>,
): (...args: A) => Promise<void> {
  return async (...args) => {
    try {
      process.exitCode = await work(...args)
    } catch (error) {
      process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
      process.exitCode = 1
    }
  }
}

/** Prints one JSON value on stdout. @returns exit code 0 */
export function printJson(value: unknown): number {
  process.stdout.write(`${JSON.stringify(value, null, 2)}\n`)
  return 0
}

/** Parses JSON of the command line. @throws Error that names it */
export function jsonOf(text: string, what: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error(`${what} is not JSON: ${text}`)
  }
}

/** The option for another workspace than TENON_WORKSPACE_ID. */
export const WORKSPACE = ['--workspace <id>', 'default: TENON_WORKSPACE_ID'] as const
