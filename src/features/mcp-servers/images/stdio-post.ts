/**
 * Messages of the MCP client over standard input and output, one JSON text a line. The client sends each message as if by HTTP;
 * here the ids of its requests become unique, since all share one connection.
 */

import { isObject } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { asksBack, type Post, parsedOrUndefined } from '../remote/mcp/json-rpc.ts'
import type { RunningServer, ServerListener } from './runtime.ts'

type Message = Readonly<Record<string, unknown>>

interface Waiting {
  readonly done: (response: Message) => void
  readonly fail: (problem: unknown) => void
}

export class StdioConversation implements ServerListener {
  readonly #waiting = new Map<number, Waiting>()
  #server: Pick<RunningServer, 'send'> | undefined
  #failure: unknown
  #lastId = 0

  /** @param server the other side, which has this conversation as its listener */
  connect(server: Pick<RunningServer, 'send'>): void {
    this.#server = server
  }

  /** Ends all requests, and those to come. */
  fail(problem: unknown): void {
    this.#failure ??= problem
    for (const { fail } of this.#waiting.values()) fail(this.#failure)
    this.#waiting.clear()
  }

  readonly onEnd = (problem: Problem): void => this.fail(problem)

  readonly onMessage = (line: string): void => {
    const message = parsedOrUndefined(line)
    if (!isObject(message)) this.fail(noMessage())
    else if (typeof message['method'] === 'string') this.#answer(message['method'], message['id'])
    else this.#take(message)
  }

  readonly post: Post = async (_headers, body) => {
    const { id, ...message } = JSON.parse(body) as { readonly id?: number }
    if (this.#failure !== undefined) throw this.#failure
    if (id === undefined) {
      this.#send(message)
      return { status: 202, headers: {}, body: Buffer.alloc(0) }
    }
    this.#lastId += 1
    const ownId = this.#lastId
    const response = new Promise<Message>((done, fail) => this.#waiting.set(ownId, { done, fail }))
    this.#send({ ...message, id: ownId })
    const json = JSON.stringify({ ...(await response), id })
    return { status: 200, headers: { 'content-type': 'application/json' }, body: Buffer.from(json) }
  }

  #take(response: Message): void {
    const id = Number(response['id'])
    this.#waiting.get(id)?.done(response)
    this.#waiting.delete(id)
  }

  /** Notifications need no answer. A server may check whether its client is there, and ask for nothing else. */
  #answer(method: string, id: unknown): void {
    if (id === undefined) return
    if (method === 'ping') this.#send({ id, result: {} })
    else this.fail(asksBack(method))
  }

  #send(message: Message): void {
    this.#server?.send(JSON.stringify({ jsonrpc: '2.0', ...message }))
  }
}

const noMessage = () =>
  new Problem('upstream_invalid', {
    detail:
      'The MCP server of the image writes text that is not a message to its standard output. Write logs to standard error.',
  })
