/** A function: sets the price of a new booking. setup.mjs deploys it, with the topic that starts it and the scopes that it needs. */

import type { Context, Event } from 'tenon'

type Created = Event<{
  readonly id: string
  readonly document: { readonly court_id: string; readonly starts_at: string; readonly ends_at: string }
}>

export default async ({ data: { id, document } }: Created, { tenon }: Context) => {
  const court = await tenon.collections.get('booking_courts', document.court_id)
  const minutes = (Date.parse(document.ends_at) - Date.parse(document.starts_at)) / 60_000
  const cents = Math.round((Number(court['hourly_price']) * 100 * minutes) / 60)
  const price = (cents / 100).toFixed(2)
  await tenon.collections.update('booking_bookings', id, { price })
  return { price }
}
