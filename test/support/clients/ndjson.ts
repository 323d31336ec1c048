/** Imports and exports collections as NDJSON, including streams that stop in the middle. */

import { type ClientRequest, request } from 'node:http'
import { inject } from 'vitest'
import { type Caller, call, type Reply } from '../fixtures/tenants.ts'
import type { Running } from '../stack/start.ts'

const NDJSON = { 'content-type': 'application/x-ndjson' }

export const lines = (...values: unknown[]) => values.map((value) => `${JSON.stringify(value)}\n`).join('')

interface Options {
  readonly as: Caller
  readonly headers?: Record<string, string>
  /** `?on_error=stop` */
  readonly query?: string
  readonly at?: Running
}

export const importInto = (
  name: string,
  body: string,
  { query = '', headers = {}, ...options }: Options,
): Promise<Reply> =>
  call('POST', `/v1/collections/${name}/import${query}`, {
    ...options,
    body,
    headers: { ...NDJSON, ...headers },
  })

// biome-ignore lint/suspicious/noExplicitAny: documents of every shape
export async function exported(name: string, { query = '', ...options }: Options): Promise<any[]> {
  const { status, body } = await call('GET', `/v1/collections/${name}/export${query}`, options)
  if (status !== 200) throw new Error(JSON.stringify(body))
  return String(body)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
}

/** An import whose body the test writes piece by piece, and its reply. */
export function openImport(
  name: string,
  { as, headers = {}, query = '', at = inject('tenon') }: Options,
): { readonly sent: ClientRequest; readonly reply: Promise<Reply> } {
  const url = `${at.url}/v1/collections/${name}/import${query}`
  const sent = request(url, { method: 'POST', headers: { ...as, ...NDJSON, ...headers } })
  const reply = new Promise<Reply>((resolve, reject) => {
    sent.on('error', reject)
    sent.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: new Headers(response.headers as Record<string, string>),
          body: JSON.parse(text),
        }),
      )
    })
  })
  return { sent, reply }
}
