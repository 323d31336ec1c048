/** Sends requests that `fetch` cannot send: a repeated header, an empty one, one of the connection, another `Host`. */

import { request } from 'node:http'
import { text } from 'node:stream/consumers'

export type RawHeaders = Readonly<Record<string, string | readonly string[]>>

export interface RawReply {
  readonly status: number
  readonly headers: NodeJS.Dict<string | string[]>
  readonly body: { readonly code?: string; readonly [member: string]: unknown }
}

/** Sends one request on a connection of its own. The body of a reply that is no JSON is `{}`. */
export function sendRaw(url: string, headers: RawHeaders, method = 'GET', body?: string): Promise<RawReply> {
  const sent = headers as NodeJS.Dict<string | string[]>
  return new Promise((done, fail) => {
    const sentRequest = request(url, { method, headers: sent, agent: false })
    sentRequest.once('error', fail).once('response', (response) => {
      const read = async () => {
        const received = await text(response)
        const isJson = /\bjson/.test(response.headers['content-type'] ?? '')
        const { statusCode: status = 0, headers: replied } = response
        return { status, headers: replied, body: isJson && received !== '' ? JSON.parse(received) : {} }
      }
      read().then(done, fail)
    })
    sentRequest.end(body)
  })
}
