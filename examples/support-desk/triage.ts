/** A function: marks a new ticket that cannot wait. setup.mjs deploys it, with the topic that starts it and the scope that it needs. */

import type { Context, Event } from 'tenon'

type Created = Event<{
  readonly id: string
  readonly document: { readonly subject: string; readonly text: string }
}>

const URGENT = /\b(?:down|urgent|urgently|emergency|outage|(?:cannot|can't|can’t) pay)\b/i

export default async ({ data: { id, document } }: Created, { tenon }: Context) => {
  const isUrgent = URGENT.test(document.subject) || URGENT.test(document.text)
  if (isUrgent) await tenon.collections.update('desk_tickets', id, { priority: 'urgent' })
  return { isUrgent }
}
