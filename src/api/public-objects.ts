/** Serves the objects that a workspace has opened to the public: `/public/{bucket}/{key}`, without a credential. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { privilege } from '../access/privileges.ts'
import type { WorkspaceScope } from '../access/scope.ts'
import type { Platform } from '../app/platform.ts'
import { Problem } from '../core/problem.ts'
import { splitReplyFields } from '../features/objects/links.ts'
import { requireReadable } from '../features/objects/object-rules.ts'
import { getObject, headObject } from '../features/objects/objects.ts'
import { noPublicObject, notPublic, readPublicObject } from '../features/objects/public-objects.ts'
import { bind, parseBound } from './bind.ts'
import { sendBytes } from './body-streams.ts'
import { isServedFor } from './host-names.ts'

const openToPublic = privilege('objects.public')

/** How the paths of public objects begin. */
export const PUBLIC_OBJECTS = '/public/'
const PATH = `${PUBLIC_OBJECTS}:bucket/*`

type PublicRequest = FastifyRequest<{ Params: { readonly bucket: string; readonly '*': string } }>

/** On each reply, also to pages of this origin: caches give one reply to all. No cookie is read here. */
const FOR_ALL_PAGES = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'content-range, etag, x-problem-code, x-request-id',
}
const PREFLIGHT = {
  'access-control-allow-methods': 'GET, HEAD',
  'access-control-allow-headers':
    'if-match, if-modified-since, if-none-match, if-range, if-unmodified-since, range, x-request-id',
  'access-control-max-age': '7200',
}

export function mountPublicObjects(app: FastifyInstance, platform: Platform): void {
  const { publicBuckets, limiter } = platform
  /** Names are guessed at the price of other requests without a credential. */
  const charge = async (request: PublicRequest, reply: FastifyReply) => {
    const {
      params: { bucket },
      ip,
    } = request
    const first = publicBuckets.isKnown(bucket) ? undefined : await limiter.limitAnonymous(ip)
    if (first?.refused !== undefined) throw first.refused
    const found = await publicBuckets.find(bucket)
    const ref = isServedFor(request, found) ? found : undefined
    const { headers, refused } =
      ref === undefined
        ? (first ?? (await limiter.limitAnonymous(ip)))
        : await limiter.limitPublicRead(ref.tenantId, ip)
    reply.headers(headers)
    if (refused !== undefined) throw refused
    return ref
  }
  app.route({
    method: ['GET', 'HEAD'],
    url: PATH,
    exposeHeadRoute: false,
    config: { operation: { name: 'object.get_public', reads: true }, isServedForHosts: true },
    onRequest: async (request: PublicRequest, reply) => {
      reply.headers(FOR_ALL_PAGES).removeHeader('vary')
      request.workspace = await charge(request, reply)
    },
    handler: async (request: PublicRequest, reply) => {
      const { workspace: ref, method } = request
      if (ref === undefined) throw noPublicObject()
      const operation = method === 'HEAD' ? headObject : getObject
      const open = () => openToPublic(platform.access, ref, { subject: 'public', role: 'anon' })
      try {
        const scope = await open()
        const input = parseBound(
          operation,
          bind(operation, request, reply, async () => {}),
        )
        return await send(scope, input, request, reply, open)
      } catch (error) {
        throw notPublic(error)
      }
    },
  })
  refuseOthers(app)
}

async function send(
  scope: WorkspaceScope,
  { bucket, key, ...options }: ReturnType<typeof getObject.parse>,
  request: PublicRequest,
  reply: FastifyReply,
  open: () => Promise<WorkspaceScope>,
): Promise<FastifyReply> {
  const verb = request.method === 'HEAD' ? 'head' : 'get'
  const [wanted, input] = splitReplyFields(options)
  // Everybody can make a URL here: its headers are those that the workspace has chosen.
  if (Object.keys(wanted).length > 0)
    throw new Problem('unknown_parameter', {
      detail:
        'The headers of a public object cannot be set by its URL. Remove the parameters that begin with response-.',
    })
  const output = await readPublicObject(scope, verb, { bucket, key }, input)
  const recheck = async () => requireReadable(await open(), key)
  return sendBytes(output, request, reply, recheck)
}

function refuseOthers(app: FastifyInstance): void {
  const headers = { allow: 'GET, HEAD, OPTIONS' }
  app.options(PATH, async (_request, reply) =>
    reply
      .code(204)
      .headers({ ...FOR_ALL_PAGES, ...PREFLIGHT })
      .send(),
  )
  const refuse = async () => {
    throw new Problem('method_not_allowed', { headers, detail: 'Public objects are read by GET and HEAD.' })
  }
  app.route({ method: ['POST', 'PUT', 'PATCH', 'DELETE'], url: PATH, onRequest: refuse, handler: refuse })
}
