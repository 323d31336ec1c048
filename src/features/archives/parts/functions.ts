/** The functions of a workspace in an archive, and behind them their versions. Triggers start nothing until somebody resumes them. */

import {
  allFunctions,
  allFunctionVersions,
  FunctionLine,
  FunctionVersionLine,
  restoreFunction,
  restoreFunctionVersion,
} from '../../functions/functions-transfer.ts'
import { versionsOf } from '../../version-aliases.ts'
import { jsonOf } from '../format/layout.ts'
import { linesOf, type Part } from '../part.ts'
import { pausedTriggers } from '../paused-triggers.ts'

export const FUNCTIONS: Part = {
  members: {
    functions: linesOf(jsonOf(FunctionLine), {
      count: 'functions',
      check: (checks, { id, active_version, latest_version, aliases }, member) => {
        checks.next('functions', id, member)
        const used = [active_version, ...versionsOf(aliases)]
        checks.functions.declare(id, { latest: latest_version, used }, member)
      },
      store: (into, one) => {
        const { admin, ref, newIdOf } = into
        const declaredAs = pausedTriggers(into, `the function ${one.name}`, one.id)
        return restoreFunction(admin, one, { ref, newIdOf, declaredAs })
      },
    }),
    'function-versions': linesOf(jsonOf(FunctionVersionLine), {
      count: 'function_versions',
      check: (checks, { function_id, version }, member) => checks.functions.add(function_id, version, member),
      store: ({ admin, ref, newIdOf }, version) => restoreFunctionVersion(admin, version, { ref, newIdOf }),
    }),
  },

  async *write(writer, { structure }) {
    yield* writer.lines('functions', allFunctions(structure), 'functions')
    const versions = async function* () {
      for await (const { id } of allFunctions(structure)) yield* allFunctionVersions(structure, id)
    }
    yield* writer.lines('function-versions', versions(), 'function_versions')
  },
}
