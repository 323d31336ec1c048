/** Uploads whose body a test writes piece by piece. */

import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { inject } from 'vitest'
import type { Caller, Reply } from '../fixtures/tenants.ts'

/** @param length of the whole body in bytes */
export function openUpload(
  path: string,
  as: Caller,
  length: number,
): { readonly sent: ClientRequest; readonly reply: Promise<Reply> } {
  const headers = { ...as, 'content-length': length }
  const sent = request(`${inject('tenon').url}${path}`, { method: 'PUT', headers, agent: false })
  return { sent, reply: readReply(sent) }
}

async function readReply(sent: ClientRequest): Promise<Reply> {
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const headers = new Headers(response.headers as Record<string, string>)
  return { status: response.statusCode ?? 0, headers, body: JSON.parse(await text(response)) }
}
