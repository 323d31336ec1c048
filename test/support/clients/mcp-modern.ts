/** Sends single messages of MCP 2026-07-28, which has neither handshake nor sessions. */

import { inject } from 'vitest'
import type { Caller } from '../fixtures/tenants.ts'
import type { Running } from '../stack/start.ts'

export const TASKS = 'io.modelcontextprotocol/tasks'

export interface Message {
  // biome-ignore lint/suspicious/noExplicitAny: tests look into messages of every shape
  readonly [member: string]: any
}

export interface Sending {
  /** Capabilities of the client; none by default. */
  readonly capabilities?: object
  readonly progressToken?: string
  readonly logLevel?: string
  readonly signal?: AbortSignal
  /** The platform; by default the common one. */
  readonly at?: Pick<Running, 'url'>
}

/** The response, before its body is read. */
export function sendModern(
  path: string,
  as: Caller,
  method: string,
  params: Readonly<Record<string, unknown>> = {},
  { capabilities = {}, progressToken, logLevel, signal, at = inject('tenon') }: Sending = {},
): Promise<Response> {
  const version = '2026-07-28'
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientCapabilities': capabilities,
    ...(progressToken && { progressToken }),
    ...(logLevel && { 'io.modelcontextprotocol/logLevel': logLevel }),
  }
  const name = params['name'] ?? params['uri'] ?? params['taskId']
  return fetch(`${at.url}${path}`, {
    method: 'POST',
    headers: {
      ...as,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': version,
      'mcp-method': method,
      ...(name !== undefined && { 'mcp-name': String(name) }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } }),
    ...(signal && { signal }),
  })
}

/** The response message, and the notifications before it. */
export async function modernRpc(
  ...sent: Parameters<typeof sendModern>
): Promise<{ status: number; message: Message; notifications: Message[] }> {
  const response = await sendModern(...sent)
  const messages: Message[] = []
  await readMessages(response, (message) => messages.push(message))
  return { status: response.status, message: messages.at(-1) ?? {}, notifications: messages.slice(0, -1) }
}

/** Reads a response to its end: a JSON document, or a stream of messages. */
export async function readMessages(response: Response, onMessage: (message: Message) => void): Promise<void> {
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
    onMessage((await response.json()) as Message)
    return
  }
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    const frames = text.split('\n\n')
    text = frames.pop() ?? ''
    for (const frame of frames) {
      const data = /^data: (.*)$/m.exec(frame)?.[1]
      if (data) onMessage(JSON.parse(data) as Message)
    }
  }
}
