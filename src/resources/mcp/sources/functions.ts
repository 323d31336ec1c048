/** Tools over deployed functions: each invokes the version that was the active one when the tool was published. */

import { LIMITS } from '../../../core/limits.ts'
import { sql } from '../../../platform/pg/sql.ts'
import { invokeVersion } from '../../functions/functions.ts'
import { digest } from '../digest.ts'
import { argumentsOf, type Candidate, toolName } from '../tool.ts'
import type { Source } from './source.ts'

interface FunctionRow {
  readonly id: string
  readonly name: string
  readonly version: number
}

export const functions: Source = {
  name: 'functions',
  operations: [invokeVersion],
  candidates: async (scope) => {
    const rows = await scope.rows<FunctionRow>(
      sql`select id, name, active_version as version from functions order by name limit ${LIMITS.mcpCandidateThingsMax}`,
    )
    return rows.map(candidate)
  },
}

function candidate({ id, name: called, version }: FunctionRow): Candidate {
  const fixed = { id, version }
  const name = toolName(`call_${called}`, LIMITS.mcpToolNameCharsMax, digest)
  return {
    candidate: `functions:${called}:invoke`,
    name,
    title: `Call the function ${called}`,
    description: `Calls the function ${called} with an input and gives what it returns.`,
    input_schema: argumentsOf(invokeVersion, fixed),
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
    scope: name,
    risk: 'write',
    binding: { source: 'functions', operation: invokeVersion.name, fixed },
  }
}
