/** Tools over functions: one calls the version that is deployed at that moment. */

import { LIMITS } from '../../../core/limits.ts'
import { sql } from '../../../platform/pg/sql.ts'
import { invokeFunction } from '../../functions/invoke.ts'
import { digest } from '../canonical.ts'
import { type Candidate, toolName } from '../tool.ts'
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

/** What a function does, nobody but its author knows: the annotations assume the worst. */
function candidate({ id, name: called }: FunctionRow): Candidate {
  const name = toolName(called, LIMITS.mcpToolNameCharsMax, digest)
  return {
    candidate: `functions:${called}:invoke`,
    name,
    title: `Call the function ${called}`,
    description: `Calls the function ${called} with \`input\` and answers what it returns.`,
    input_schema: {
      type: 'object',
      properties: { input: { type: 'object', description: 'What the function is called with.' } },
      required: [],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
    scope: name,
    risk: 'write',
    binding: { source: 'functions', operation: invokeFunction.name, fixed: { id } },
  }
}
