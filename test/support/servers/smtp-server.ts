/** A small SMTP server (RFC 5321) on loopback that records every conversation, and refuses the recipients that a test names. */

import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createInterface } from 'node:readline'

export interface ReceivedMail {
  readonly from: string
  /** The recipients that were accepted. */
  readonly to: readonly string[]
  /** Headers and body, without dot-stuffing. */
  readonly data: string
}

export class SmtpServer {
  readonly mails: ReceivedMail[] = []
  /** All commands, in order. */
  readonly commands: string[] = []
  /** Replies to `RCPT TO`, by address; other recipients are accepted. */
  readonly replies = new Map<string, string>()
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor() {
    this.#server = createServer((socket) => {
      this.#sockets.add(socket)
      socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket))
      void this.#converse(socket)
    })
  }

  /** @param port any free one by default */
  static async open(port = 0): Promise<SmtpServer> {
    const smtp = new SmtpServer()
    await new Promise<void>((done) => smtp.#server.listen(port, '127.0.0.1', done))
    return smtp
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  mailsTo(address: string): ReceivedMail[] {
    return this.mails.filter(({ to }) => to.includes(address))
  }

  async close(): Promise<void> {
    const closed = new Promise((done) => this.#server.close(done))
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  async #converse(socket: Socket): Promise<void> {
    const reply = (text: string) => socket.write(`${text}\r\n`)
    let envelope: { from: string; to: string[] } = { from: '', to: [] }
    let data: string[] | undefined
    reply('220 smtp.test ESMTP')
    for await (const line of createInterface({ input: socket, crlfDelay: Number.POSITIVE_INFINITY })) {
      if (data !== undefined && line !== '.') {
        data.push(line.replace(/^\./, ''))
      } else if (data !== undefined) {
        this.mails.push({ ...envelope, data: data.join('\r\n') })
        ;[data, envelope] = [undefined, { from: '', to: [] }]
        reply('250 2.0.0 queued')
      } else {
        this.commands.push(line)
        const [, verb = '', address = ''] = /^(\w+)(?:[^<]*<([^>]*)>)?/.exec(line.toUpperCase()) ?? []
        const sent = /<([^>]*)>/.exec(line)?.[1] ?? address
        if (verb === 'MAIL') envelope = { from: sent, to: [] }
        const answer = verb === 'RCPT' ? (this.replies.get(sent) ?? '250 2.1.5 fine') : REPLIES[verb]
        if (verb === 'RCPT' && answer?.startsWith('2')) envelope.to.push(sent)
        if (verb === 'DATA') data = []
        reply(answer ?? '250 fine')
        if (verb === 'QUIT') socket.end()
      }
    }
  }
}

const REPLIES: Readonly<Record<string, string>> = { DATA: '354 go on', QUIT: '221 bye' }
