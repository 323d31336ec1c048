/** Mails the approvers of an open approval: what is asked, until when, and a link for each person. */

import { createHash } from 'node:crypto'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { addressOf } from '../../../access/scope-services.ts'
import type { Mail, Mailer } from '../../../infra/mail/mail.ts'
import { sql, textArray } from '../../../infra/postgres/sql.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { linkTo } from './approval-links.ts'
import { accountsNamed, refusalOf } from './deciders.ts'

interface Asked {
  readonly id: string
  readonly flow: string
  readonly name: string
  readonly title: string | null
  readonly approvers: readonly string[]
  readonly excluded: readonly string[]
  readonly decided: readonly string[]
  /** Those who have this mail already, or whose server refuses it. */
  readonly mailed: readonly string[]
  readonly round: number
  readonly mails_sent: number
  readonly mail_tries: number
  readonly deadline_at: string | null
}

/**
 * Sends one mail to each person who may decide and has not, and notes when they are reminded. At least once: a mail that is
 * under way during a crash is sent again, with the same message id. A refused mail does not hold up those of others.
 * @throws Error of the mail server; the rest is due again
 */
export async function mailApprovers(scope: WorkspaceScope, id: string, send: Mailer['send']): Promise<void> {
  const asked = await scope.row<Asked>(sql`
    select a.id, f.name as flow, a.name, a.title, to_json(a.approvers) as approvers, to_json(a.excluded) as excluded,
      to_json(array(select d ->> 'by' from jsonb_array_elements(a.decisions) as d)) as decided,
      to_json(a.mailed) as mailed, a.round, a.mails_sent, a.mail_tries,
      a.deadline_at
    from approvals a join executions e on e.id = a.execution_id join flows f on f.id = e.flow_id
    where a.id = ${id} and a.status = 'open' and a.mail_due_at is not null`)
  if (asked === undefined) return
  const isComplete = await mailAll(scope, asked, send)
  // An address that is refused for days must not hold up the reminders of others.
  const isOver = isComplete || asked.mail_tries >= mailTriesMax
  // Another round that has begun meanwhile is due by itself.
  await scope.batch(sql`update approvals set ${isOver ? NEXT_REMINDER : NEXT_TRY}
    where id = ${id} and status = 'open' and round = ${asked.round}`)
}

const { mailAttemptsMax: mailTriesMax, mailRetrySeconds } = FLOW_LIMITS.approvals

const NEXT_REMINDER = sql`mails_sent = mails_sent + 1, mailed = '{}', mail_tries = 0,
  mail_due_at = case when remind_ms is not null then now() + remind_ms * interval '1 millisecond' end`

const NEXT_TRY = sql`mail_tries = mail_tries + 1,
  mail_due_at = now() + make_interval(secs => ${mailRetrySeconds}::integer * 2 ^ mail_tries)`

/** @returns false if some mails are to be tried again */
async function mailAll(scope: WorkspaceScope, asked: Asked, send: Mailer['send']): Promise<boolean> {
  let isComplete = true
  for (const person of await findRecipients(scope, asked)) {
    const refusal = await send(await mailTo(scope, asked, person))
    if (refusal !== undefined) scope.logError(refusal.error, 'approval mail refused')
    if (refusal === undefined || refusal.isFinal)
      await scope.batch(sql`update approvals set mailed = array_append(mailed, ${person.id})
        where id = ${asked.id} and status = 'open' and round = ${asked.round}`)
    else isComplete = false
  }
  return isComplete
}

interface Recipient {
  /** The account, or the address without one. */
  readonly id: string
  readonly email: string
}

/** The people who may still decide. An address that no account has verified is a person of its own. */
async function findRecipients(scope: WorkspaceScope, asked: Asked): Promise<Recipient[]> {
  const accounts = await accountsNamed(scope, asked.approvers)
  const known = new Set(accounts.map(({ email }) => email))
  const addresses = asked.approvers.filter((name) => EMAIL.test(name) && !known.has(name))
  const left = [
    ...accounts.filter(({ active }) => active),
    ...addresses.map((email) => ({ id: email, email })),
  ]
  const done = new Set([...asked.excluded, ...asked.decided, ...asked.mailed])
  const open = left.filter(({ id }) => !done.has(id))
  const ids = textArray(open.map(({ id }) => id))
  const free = await scope.rows<{ id: string }>(sql`
    select person.id from approvals a cross join unnest(${ids}::text[]) as person(id)
    where a.id = ${asked.id} and ${refusalOf(sql`person.id`)} is null`)
  const mayDecide = new Set(free.map(({ id }) => id))
  return open.filter(({ id }) => mayDecide.has(id))
}

const EMAIL = /^[^\s@:|]+@[^\s@]+$/

async function mailTo(scope: WorkspaceScope, asked: Asked, { id, email }: Recipient): Promise<Mail> {
  const { title, name, flow, round, mails_sent: sent, deadline_at: deadline } = asked
  const what = title ?? `${name} of ${flow}`
  const until = deadline === null ? '' : `\nDecide until ${deadline.slice(0, 16).replace('T', ' ')} UTC.`
  const text = `${what}\n\nThe flow ${flow} asks for your decision.${until}\n\n${await linkTo(scope, asked, id)}\n
Only you can use this link.\n`
  const { hostname } = new URL(addressOf(scope, '/'))
  // Short, so that the header is not folded.
  const person = createHash('sha256').update(id).digest('hex').slice(0, 12)
  return {
    to: email,
    subject: `${sent > 0 ? 'Reminder: ' : ''}${what}`,
    text,
    messageId: `<${asked.id}.${round}.${sent}.${person}@${hostname}>`,
  }
}
