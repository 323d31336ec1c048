/** The page at which an admin lets the Temporal UI in this browser read payloads, with a token of their own. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Problem } from '../core/problem.ts'
import { publicUrl } from '../platform/config.ts'
import type { Doorkeeper } from '../platform/identity/doorkeeper.ts'
import { payloadsPage, payloadsReadablePage } from '../platform/identity/pages.ts'
import type { Platform } from '../platform/platform.ts'
import { decodePayloads } from '../resources/codec.ts'
import { formOf, readForms, refuseOtherSites, show } from './forms.ts'

const PATH = '/auth/payloads'

/** Where no Temporal UI is known, there is no such page. */
export async function mountPayloadPage(
  app: FastifyInstance,
  platform: Platform,
  doorkeeper: Doorkeeper,
): Promise<void> {
  const { config } = platform
  const { TEMPORAL_UI_URL: uiUrl } = config
  if (uiUrl === undefined) return
  const { origin } = new URL(publicUrl(config))
  await app.register(async (pages) => {
    readForms(pages)
    pages.get(PATH, async (_request, reply) => show(reply, payloadsPage()))
    // It is in the audit log, whoever was let in and whoever was not.
    const asked = { config: { operation: { name: 'codec.admit_page', reads: false } } }
    pages.post(PATH, asked, async (request, reply) => {
      refuseOtherSites(request, origin)
      const token = (formOf(request)['token'] ?? '').trim()
      const refused = await recognise(request, reply, token, { platform, doorkeeper })
      if (refused !== undefined) return show(reply, payloadsPage(refused))
      const { cookie, until } = doorkeeper.pagePass.issue(token)
      reply.header('set-cookie', cookie)
      return show(reply, payloadsReadablePage({ until, uiUrl, endpoint: `${publicUrl(config)}/v1/codec` }))
    })
  })
}

/** Whether the token may read payloads at all. @returns why not */
async function recognise(
  request: FastifyRequest,
  reply: FastifyReply,
  token: string,
  { platform, doorkeeper }: { platform: Platform; doorkeeper: Doorkeeper },
): Promise<Problem | undefined> {
  try {
    request.principal = await doorkeeper.auth.authenticate({ kind: 'token', text: token })
    platform.access.permit(decodePayloads, request.principal)
    return undefined
  } catch (error) {
    if (!(error instanceof Problem) || error.status >= 500) throw error
    reply.header('x-problem-code', error.code)
    return error
  }
}
