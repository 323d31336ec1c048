/**
 * The door of webhooks: whoever can sign with the secret of one may start its flow, and needs no credential of ours. No
 * operation, like the wire of MCP: those are for callers whom we know. No scope is opened before the signature of every
 * byte was verified; an address that is none and a bad signature are answered alike.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { Platform } from '../app/platform.ts'
import { randomIds } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'
import { type DeliveryResult, startByDelivery } from '../features/flows/triggers/trigger-starts.ts'
import type { VerifiedDelivery } from '../features/flows/triggers/webhook-signatures.ts'

const PATH = '/v1/flows/workspaces/:ws/triggers/:id'

interface Place {
  readonly ws: string
  readonly id: string
}

export async function mountWebhooks(app: FastifyInstance, platform: Platform): Promise<void> {
  const door = new WebhookHandler(platform)
  await app.register(async (part) => {
    part.removeAllContentTypeParsers()
    part.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
    part.post(PATH, {
      config: { operation: { name: 'webhook.receive', reads: false } },
      bodyLimit: LIMITS.webhookBodyBytesMax,
      onRequest: (request, reply) => door.enter(request, reply),
      handler: (request, reply) => door.handle(request, reply),
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

class WebhookHandler {
  readonly #platform: Platform
  /** Who has signed well: he is not refused for what his neighbours guess. */
  readonly #senders = new LRUCache<string, true>({ max: LIMITS.webhookSendersKnownMax })

  constructor(platform: Platform) {
    this.#platform = platform
  }

  /** Refuses before a byte of the body is read. @throws Problem `rate_limited` */
  async enter(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { limiter } = this.#platform
    const { ws, id } = request.params as Place
    const { headers, refused } = await limiter.limitWebhook(`${ws}/${id}`, request.ip)
    reply.headers(headers)
    if (refused !== undefined) throw refused
    if (!this.#senders.has(senderOf(request))) limiter.visitor(request.ip).tolerate()
  }

  async handle(request: FastifyRequest, reply: FastifyReply): Promise<DeliveryResult> {
    const { ws, id } = request.params as Place
    const delivery = { headers: request.headers, body: bodyOf(request) }
    const received = await this.#platform.webhooks.receive(ws, id, delivery)
    if (received === undefined) {
      this.#platform.limiter.visitor(request.ip).refuse()
      throw new Problem('signature_invalid')
    }
    this.#remember(request, received)
    const actor = { subject: received.triggerId, role: 'workspace_admin' } as const
    const scope = await this.#platform.access.continueActive(received.ref, actor, randomIds)
    const delivered = await startByDelivery(scope, received.triggerId, received.signed, delivery)
    reply.code(202).headers({ 'cache-control': 'private, no-store', 'x-stability': 'preview' })
    return delivered
  }

  #remember(request: FastifyRequest, { ref, triggerId }: VerifiedDelivery): void {
    const actor = { subject: triggerId, role: null, kind: 'webhook' } as const
    request.workspace = ref
    request.auditContext = { place: ref, sure: true, actor, before: null, after: null }
    this.#senders.set(senderOf(request), true)
  }
}

const senderOf = (request: FastifyRequest): string => {
  const { ws, id } = request.params as Place
  return `${ws}/${id} ${request.ip}`
}

/** Nothing was sent where nothing was parsed. */
const bodyOf = ({ body }: FastifyRequest): Buffer => (Buffer.isBuffer(body) ? body : Buffer.alloc(0))
