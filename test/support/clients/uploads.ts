/** Uploads whose body a test writes piece by piece. */

import { type ClientRequest, request } from 'node:http'
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
  const reply = new Promise<Reply>((resolve, reject) => {
    sent.on('error', reject)
    sent.on('response', (response) =>
      text(response).then((body) => {
        const headers = new Headers(response.headers as Record<string, string>)
        resolve({ status: response.statusCode ?? 0, headers, body: JSON.parse(body) })
      }, reject),
    )
  })
  return { sent, reply }
}
