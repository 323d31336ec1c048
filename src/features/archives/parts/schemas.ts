/** The declarations of collections in an archive, in the form in which they are requested. */

import Type, { type Static } from 'typebox'
import { Problem } from '../../../core/problem.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { declareCollection, NEW_DECLARATION } from '../../collections/schemas/declare-collection.ts'
import { addLateConstraints } from '../../collections/schemas/declared-tables.ts'
import { createSchema } from '../../collections/schemas/schemas-api.ts'
import { allDeclarations, isDeclared } from '../../collections/schemas/schemas-transfer.ts'
import { invalid, jsonOf } from '../format/layout.ts'
import { linesOf, type Part, type Target } from '../part.ts'

const { workspace_id: _, ...members } = NEW_DECLARATION
const SchemaLine = Type.Object(
  { id: Type.String({ pattern: '^sch_[0-9a-hjkmnp-tv-z]{26}$' }), ...members },
  { additionalProperties: false },
)

export const SCHEMAS: Part = {
  members: {
    schemas: linesOf(jsonOf(SchemaLine), {
      count: 'schemas',
      check: (checks, { id }, member) => checks.next('schemas', id, member),
      store: restore,
    }),
  },

  async *write(writer, { structure }) {
    yield* writer.lines('schemas', allDeclarations(structure), 'schemas')
  },

  // By then all documents are stored that others refer to.
  finish: async ({ admin, ref }) => {
    await addLateConstraints(admin, ref).catch((error: unknown) => {
      if (!(error instanceof Problem) || !WRONG.includes(error.code)) throw error
      throw invalid(`has documents that cannot be stored: ${error.message}`, 'schemas', error)
    })
  },
}

/** Codes of references that cannot be declared, and of documents that refer to none. */
const WRONG: readonly string[] = ['schema_incompatible', 'validation_failed', 'not_supported']

/** Nobody else declares anything in the workspace while it is made, so what is declared was declared by an earlier attempt. */
async function restore({ admin, ref, newIdOf }: Target, line: Static<typeof SchemaLine>): Promise<void> {
  const { id, ...declared } = line
  const input = createSchema.parse({ ...declared, workspace_id: ref.workspaceId })
  if (await isDeclared(admin, ref, input.collection)) return
  const where = sql`state = 'provisioning'`
  const declare = (as: string) => declareCollection(admin, input, { where, id: as, isRestored: true })
  await declare(id).catch((error: unknown) => {
    if (!(error instanceof Problem) || error.code !== 'conflict') throw error
    return declare(newIdOf(id))
  })
}
