/**
 * Receives webhook deliveries: verifies the signature, then starts the flow. The sender needs no other credential, and no
 * scope is opened before the signature of the whole body is verified. An unknown address and a bad signature get the same
 * answer. A delivery that arrives again starts nothing: `claim` in `features/flows/triggers/trigger-starts.ts` deduplicates.
 */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { Platform } from '../app/platform.ts'
import { randomIds } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'
import { startByDelivery } from '../features/flows/triggers/trigger-starts.ts'

const PATH = '/v1/flows/workspaces/:ws/triggers/:id'

type WebhookRequest = FastifyRequest<{ Params: { readonly ws: string; readonly id: string } }>

export async function mountWebhooks(
  app: FastifyInstance,
  { access, limiter, webhooks }: Platform,
): Promise<void> {
  /** Senders with a valid signature: failures of other clients at the same address do not block them. */
  const knownSenders = new LRUCache<string, true>({ max: LIMITS.webhookSendersKnownMax })
  await app.register(async (part) => {
    part.removeAllContentTypeParsers()
    part.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
    part.route({
      method: 'POST',
      url: PATH,
      config: { operation: { name: 'webhook.receive', reads: false } },
      bodyLimit: LIMITS.webhookBodyBytesMax,
      // Limits requests before the body is read.
      onRequest: async (request: WebhookRequest, reply) => {
        const { ws, id } = request.params
        const { headers, refused } = await limiter.limitWebhook(`${ws}/${id}`, request.ip)
        reply.headers(headers)
        if (refused !== undefined) throw refused
        if (!knownSenders.has(senderOf(request))) limiter.authFailures(request.ip).check()
      },
      handler: async (request: WebhookRequest, reply) => {
        const { ws, id } = request.params
        const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
        const delivery = { headers: request.headers, body }
        const received = await webhooks.receive(ws, id, delivery)
        if (received === undefined) {
          limiter.authFailures(request.ip).record()
          throw new Problem('signature_invalid')
        }
        const { ref, triggerId, signed } = received
        const actor = { subject: triggerId, role: null, kind: 'webhook' } as const
        request.workspace = ref
        request.auditContext = { owner: ref, isVerified: true, actor, before: null, after: null }
        knownSenders.set(senderOf(request), true)
        const flowActor = { subject: triggerId, role: 'workspace_admin' } as const
        const scope = await access.continueActive(ref, flowActor, randomIds)
        const started = await startByDelivery(scope, triggerId, signed, delivery)
        reply.code(202).headers({ 'cache-control': 'private, no-store', 'x-stability': 'preview' })
        return started
      },
    })
  })
  const refuse = async () => {
    throw new Problem('method_not_allowed', {
      headers: { allow: 'POST' },
      detail: 'Webhooks are sent by POST.',
    })
  }
  const method = ['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
  app.route({ method, url: PATH, onRequest: refuse, handler: refuse })
}

const senderOf = ({ params: { ws, id }, ip }: WebhookRequest): string => `${ws}/${id} ${ip}`
