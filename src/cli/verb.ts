/** What every verb shares: how it ends, and how it prints. */

/** Runs a verb; what it throws is one line for a person, and exit code 1. */
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

/** One JSON value, alone on stdout. @returns exit code 0 */
export function printJson(value: unknown): number {
  process.stdout.write(`${JSON.stringify(value, null, 2)}\n`)
  return 0
}

/** An option's value as JSON. @throws Error that says what was expected */
export function jsonOf(text: string, what: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error(`${what} is not JSON: ${text}`)
  }
}

/** The option by which a verb is told of another workspace than the demo's. */
export const WORKSPACE = ['--workspace <id>', 'default: TENON_WORKSPACE_ID'] as const
