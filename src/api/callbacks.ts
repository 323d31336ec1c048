/**
 * Receives the callbacks that flows await: the URL is the credential. An unknown callback and a wrong token get the same
 * answer, and no scope is opened for them.
 */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { privilege } from '../access/privileges.ts'
import type { Platform } from '../app/platform.ts'
import { notFound, Problem } from '../core/problem.ts'
import type { Json } from '../core/work.ts'
import { receiveCallback } from '../features/flows/executions/callbacks.ts'
import { TRIGGER_LIMITS } from '../features/runs/triggers/limits.ts'
import { isServedFor } from './host-names.ts'

const openForCallback = privilege('flows.callbacks')

const PATH = '/v1/flows/workspaces/:ws/callbacks/:id'

type CallbackRequest = FastifyRequest<{
  Params: { readonly ws: string; readonly id: string }
  Querystring: { readonly token?: unknown }
}>

export async function mountCallbacks(app: FastifyInstance, platform: Platform): Promise<void> {
  const { access, callbacks, limiter } = platform
  app.route({
    method: 'POST',
    url: PATH,
    config: { operation: { name: 'callback.receive', reads: false }, isServedForHosts: true },
    bodyLimit: TRIGGER_LIMITS.webhookBodyBytesMax,
    // Limits requests and verifies the token before the body is read.
    onRequest: async (request: CallbackRequest, reply) => {
      const { ws, id } = request.params
      const { headers, refused } = await limiter.limitWebhook(`${ws}/${id}`, request.ip)
      reply.headers(headers)
      if (refused !== undefined) throw refused
      limiter.authFailures(request.ip).check()
      const ref = await callbacks.verify(ws, id, request.query.token)
      if (ref === undefined || !isServedFor(request, ref)) {
        limiter.authFailures(request.ip).record()
        throw notFound('callback')
      }
      const actor = { subject: `callback:${id}`, role: null, kind: 'webhook' } as const
      request.workspace = ref
      request.auditContext = { owner: ref, isVerified: true, actor, before: null, after: null }
    },
    handler: async (request: CallbackRequest, reply) => {
      const { id } = request.params
      const ref = request.workspace
      if (ref === undefined) throw notFound('callback')
      const actor = { subject: `callback:${id}`, role: 'workspace_admin' } as const
      const scope = await openForCallback(access, ref, actor)
      await receiveCallback(scope, id, (request.body ?? null) as Json)
      reply.code(202).headers({ 'cache-control': 'private, no-store', 'x-stability': 'preview' })
      return {}
    },
  })
  const refuse = async () => {
    throw new Problem('method_not_allowed', {
      headers: { allow: 'POST' },
      detail: 'Callbacks are sent by POST.',
    })
  }
  app.route({
    method: ['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'],
    url: PATH,
    onRequest: refuse,
    handler: refuse,
  })
}
