/** The names of secrets and API keys in an archive. Their values are never written: they are set, or made, anew. */

import Type from 'typebox'
import { secretNames } from '../../flows/flows-transfer.ts'
import { keyNames } from '../../identity/keys/key.ts'
import { jsonOf } from '../format/layout.ts'
import { readLines } from '../format/reader.ts'
import type { Part } from '../part.ts'

const Text = Type.String({ minLength: 1, maxLength: 200 })
const readLine = jsonOf(
  Type.Object(
    {
      kind: Type.Union(['secret', 'anon', 'service', 'storage'].map((kind) => Type.Literal(kind))),
      name: Text,
    },
    { additionalProperties: false },
  ),
)

export const SECRETS: Part = {
  folders: ['secrets'],

  async *write(writer, { structure }) {
    const names = async function* () {
      for await (const { name } of secretNames(structure)) yield { kind: 'secret', name }
      for await (const { kind, name } of keyNames(structure)) yield { kind, name }
    }
    yield* writer.lines('secrets', names())
  },

  async read({ missing }, member) {
    for await (const line of readLines(member)) {
      const { kind, name } = readLine(line, member.name)
      missing(
        kind === 'secret' ? `secret ${name}: set its value` : `API key ${name} (${kind}): make a new one`,
      )
    }
  },
}
