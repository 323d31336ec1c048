/** The declarations of collections in an archive, in the form in which they are requested. */

import Type, { type Static } from 'typebox'
import { Problem } from '../../../core/problem.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { createSchema, declareCollection } from '../../collections/schemas/schemas-api.ts'
import { allDeclarations, isDeclared } from '../../collections/schemas/schemas-transfer.ts'
import { jsonOf } from '../format/layout.ts'
import { readLines } from '../format/reader.ts'
import { counted, inMember, type Part, type Target } from '../part.ts'

const { workspace_id: _, ...members } = createSchema.input.properties
const SchemaLine = Type.Object(
  { id: Type.String({ pattern: '^sch_[0-9a-hjkmnp-tv-z]{26}$' }), ...members },
  { additionalProperties: false },
)
const readLine = jsonOf(SchemaLine)

export const SCHEMAS: Part = {
  folders: ['schemas'],

  async *write(writer, { structure }) {
    const declarations = async function* () {
      for await (const declaration of allDeclarations(structure)) {
        writer.count('schemas')
        yield declaration
      }
    }
    yield* writer.lines('schemas', declarations())
  },

  async read(into, member) {
    for await (const line of readLines(member)) {
      const declaration = readLine(line, member.name)
      await inMember(into, member, () => restore(into, declaration))
      counted(into.counts, 'schemas')
    }
  },
}

/** Nobody else declares anything in the workspace while it is made, so what is declared was declared by an earlier attempt. */
async function restore({ admin, ref, newIdOf }: Target, line: Static<typeof SchemaLine>): Promise<void> {
  const { id, ...declared } = line
  const input = createSchema.parse({ ...declared, workspace_id: ref.workspaceId })
  if (await isDeclared(admin, ref, input.collection)) return
  const where = sql`state = 'provisioning'`
  const declare = (as: string) => declareCollection(admin, input, { where, id: as })
  await declare(id).catch((error: unknown) => {
    if (!(error instanceof Problem) || error.code !== 'conflict') throw error
    return declare(newIdOf(id))
  })
}
