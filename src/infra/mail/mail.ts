/** Sends mail by SMTP; without an SMTP server, writes each mail into a folder. */

import { createHash } from 'node:crypto'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createTransport, type Transporter } from 'nodemailer'
import type { Config } from '../config.ts'

export interface Mail {
  readonly to: string
  readonly subject: string
  readonly text: string
  /** The same at each attempt to send this mail, so that servers and readers recognise a duplicate. */
  readonly messageId: string
}

/** Why the server does not take a mail for its recipient; other recipients may get theirs. */
export interface MailRefusal {
  readonly error: Error
  /** It would be refused again (an SMTP status of 5xx). */
  readonly isFinal: boolean
}

const TIMEOUT_MS = 10_000

export class Mailer {
  readonly #from: string
  readonly #folder: string | undefined
  readonly #transport: Transporter | undefined
  readonly #outcomes = { sent: 0, refused: 0, failed: 0 }

  constructor({ SMTP_URL: url, TENON_MAIL_FROM: from, TENON_MAIL_DIR: folder }: Config) {
    this.#from = from
    this.#folder = url === undefined ? folder : undefined
    const timeouts = {
      connectionTimeout: TIMEOUT_MS,
      greetingTimeout: TIMEOUT_MS,
      socketTimeout: TIMEOUT_MS,
    }
    if (url !== undefined)
      this.#transport = createTransport({ url, pool: true, maxConnections: 2, ...timeouts })
    // Composes mails for the folder.
    else if (folder !== undefined) this.#transport = createTransport({ streamTransport: true, buffer: true })
  }

  /** False if neither an SMTP server nor a folder is configured. */
  get isConfigured(): boolean {
    return this.#transport !== undefined
  }

  /** How many mails the server has taken, has refused for their recipient, and could not be given. */
  get outcomes(): Readonly<Record<'sent' | 'refused' | 'failed', number>> {
    return this.#outcomes
  }

  /** @returns why the recipient does not get it, if it is refused. @throws Error if the server cannot be used */
  async send(mail: Mail): Promise<MailRefusal | undefined> {
    try {
      const refusal = await this.#send(mail)
      this.#outcomes[refusal === undefined ? 'sent' : 'refused'] += 1
      return refusal
    } catch (error) {
      this.#outcomes.failed += 1
      throw error
    }
  }

  async #send(mail: Mail): Promise<MailRefusal | undefined> {
    try {
      const sent = await this.#transport?.sendMail(this.#messageOf(mail))
      if (this.#folder !== undefined && sent !== undefined)
        await store(this.#folder, mail.messageId, sent.message)
      return undefined
    } catch (error) {
      const refusal = refusalIn(error)
      if (refusal === undefined) throw error
      return refusal
    }
  }

  #messageOf({ to, subject, text, messageId }: Mail) {
    return {
      from: this.#from,
      // As an object, so that no text of a flow or an account adds recipients.
      to: { name: '', address: to },
      subject: subject.replaceAll(/\s+/g, ' '),
      text,
      messageId,
      disableFileAccess: true,
      disableUrlAccess: true,
    }
  }

  close(): void {
    this.#transport?.close()
  }
}

/** An error that is about this mail or its recipient, not about the server or the sender. */
function refusalIn(error: unknown): MailRefusal | undefined {
  if (!(error instanceof Error)) return undefined
  const {
    code,
    command,
    responseCode = 0,
  } = error as Error & Record<string, unknown> & { responseCode?: number }
  // The client sends no address that would break the protocol, such as one with angle brackets.
  if (code === 'EENVELOPE' && command === 'API' && /recipient/i.test(error.message))
    return { error, isFinal: true }
  if (command !== 'RCPT TO' && command !== 'DATA') return undefined
  return responseCode < 400 ? undefined : { error, isFinal: responseCode >= 500 }
}

/** A mail that is sent again replaces itself. */
async function store(folder: string, messageId: string, message: Buffer): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const path = join(folder, `${createHash('sha256').update(messageId).digest('hex').slice(0, 32)}.eml`)
  await writeFile(`${path}.part`, message, { mode: 0o600 })
  await rename(`${path}.part`, path)
}
