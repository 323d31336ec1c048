/** Sends requests that `fetch` cannot send: a repeated header, an empty one, one of the connection. */

import { request } from 'node:http'
import { text } from 'node:stream/consumers'

export type RawHeaders = Readonly<Record<string, string | readonly string[]>>

export interface RawReply {
  readonly status: number
  readonly headers: NodeJS.Dict<string | string[]>
  readonly body: { readonly code?: string; readonly [member: string]: unknown }
}

/** Sends one request on a connection of its own; its reply is JSON. */
export function sendRaw(url: string, headers: RawHeaders, method = 'GET'): Promise<RawReply> {
  const sent = headers as NodeJS.Dict<string | string[]>
  return new Promise((done, fail) => {
    const sentRequest = request(url, { method, headers: sent, agent: false })
    sentRequest.once('error', fail).once('response', (response) => {
      const read = async () => {
        const body = JSON.parse((await text(response)) || '{}')
        return { status: response.statusCode ?? 0, headers: response.headers, body }
      }
      read().then(done, fail)
    })
    sentRequest.end()
  })
}
