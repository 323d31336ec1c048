/** The documentation that the API serves of itself: OpenAPI, a page for people, a page per code of a problem and of a fault. */

import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { DIAGNOSTICS, type DiagnosticCode } from '../../flows-dsl/faults.ts'
import { PROBLEMS, Problem, type ProblemCode } from '../core/problem.ts'
import { diagnosticPage } from '../resources/flows/simulate.ts'
import { OPERATIONS } from '../resources/index.ts'
import { openApi } from './openapi.ts'

export async function mountDocs(app: FastifyInstance): Promise<void> {
  const document = openApi(OPERATIONS)
  app.get('/openapi.json', async () => document)
  app.get('/docs/problems/:code', async (request, reply) => {
    const { code } = request.params as { code: string }
    if (!Object.hasOwn(PROBLEMS, code)) throw new Problem('route_not_found')
    const { status, title, help } = PROBLEMS[code as ProblemCode]
    return reply.type('text/plain; charset=utf-8').send(`${code} (${status})\n\n${title}.\n${help}\n`)
  })
  app.get('/docs/flows/faults/:code', async (request, reply) => {
    const { code } = request.params as { code: string }
    if (!Object.hasOwn(DIAGNOSTICS, code)) throw new Problem('route_not_found')
    return reply.type('text/markdown; charset=utf-8').send(diagnosticPage(code as DiagnosticCode))
  })
  await app.register(swagger, {
    mode: 'static',
    specification: { document: document as never },
  })
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: true,
    theme: {
      title: 'Tenon API',
      css: [{ filename: 'tenon.css', content: '.swagger-ui .topbar { display: none }' }],
    },
  })
}
