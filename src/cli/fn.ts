/** `tenon fn`: its verbs are in functions/. */

import type { Command } from 'commander'
import { deployVerbs } from './functions/deploy.ts'
import { initVerb } from './functions/init.ts'
import { invokeVerb } from './functions/invoke.ts'
import { logVerbs } from './functions/logs.ts'
import { recordVerbs } from './functions/records.ts'
import { runVerb } from './functions/run.ts'

export function functionVerbs(program: Command): void {
  const functions = program.command('fn').description('functions')
  initVerb(functions)
  deployVerbs(functions)
  invokeVerb(functions)
  runVerb(functions)
  logVerbs(functions)
  recordVerbs(functions)
}
