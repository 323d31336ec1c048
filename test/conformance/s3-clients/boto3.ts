/** Runs the suite of boto3. */

import { join } from 'node:path'
import type { Programs } from './programs.ts'
import type { Target } from './target.ts'

export async function testBoto3({ python }: Programs, { run }: Target): Promise<void> {
  process.stdout.write(await run(python, ['-B', join(import.meta.dirname, 'boto3_suite.py')]))
}
