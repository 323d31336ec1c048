/** Tools over deployed functions: one invokes the active version. */

import { LIMITS } from '../../../core/limits.ts'
import { sql } from '../../../platform/pg/sql.ts'
import { invokeFunction } from '../../functions/invoke.ts'
import { digest } from '../digest.ts'
import { argumentsOf, type Candidate, toolName } from '../tool.ts'
import type { Source } from './source.ts'

interface FunctionRow {
  readonly id: string
  readonly name: string
}

export const functions: Source = {
  name: 'functions',
  operations: [invokeFunction],
  candidates: async (scope) => {
    const rows = await scope.rows<FunctionRow>(
      sql`select id, name from functions order by name limit ${LIMITS.mcpCandidateThingsMax}`,
    )
    return rows.map(candidate)
  },
}

function candidate({ id, name: called }: FunctionRow): Candidate {
  const fixed = { id }
  const name = toolName(`call_${called}`, LIMITS.mcpToolNameCharsMax, digest)
  return {
    candidate: `functions:${called}:invoke`,
    name,
    title: `Call the function ${called}`,
    description: `Calls the function ${called} with an input and gives what it returns.`,
    input_schema: argumentsOf(invokeFunction, fixed),
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
    scope: name,
    risk: 'write',
    binding: { source: 'functions', operation: invokeFunction.name, fixed },
  }
}
