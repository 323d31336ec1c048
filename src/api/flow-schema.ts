/** The language of flows as a JSON Schema, for editors: anybody may read it, and keep it. */

import { createHash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { editorSchema } from '../../flows-dsl/editor-schema/schema.ts'
import { matches } from '../core/etag.ts'
import { CATALOGUE } from '../resources/catalogue.ts'

export const FLOW_SCHEMA_PATH = '/v1/flows/schema.json'

/** It changes with a release alone, and editors ask again each time they start. */
const KEPT = 'public, max-age=3600'

/** The schema as it is served and as docs/reference has it. */
export const flowSchema = (): string => `${JSON.stringify(editorSchema(CATALOGUE), null, 2)}\n`

export function mountFlowSchema(app: FastifyInstance): void {
  const text = flowSchema()
  const etag = `"${createHash('sha256').update(text).digest('base64url')}"`
  app.get(FLOW_SCHEMA_PATH, async (request, reply) => {
    // One for all: it does not vary with who asks.
    reply.removeHeader('vary')
    reply.headers({ etag, 'cache-control': KEPT, 'access-control-allow-origin': '*' })
    if (matches(request.headers['if-none-match'] ?? '', etag, 'weak')) return reply.code(304).send()
    return reply.type('application/schema+json').send(text)
  })
}
