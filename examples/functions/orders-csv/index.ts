import type { Context } from 'tenon'

/** `GET /v1/functions/orders-csv/http/?status=open`: the orders as CSV, streamed page by page. */
export const config = { scopes: ['collections:read'] }

const cell = (value: unknown) => `"${String(value ?? '').replaceAll('"', '""')}"`

async function* lines(status: string | null, { collections }: Context['tenon']) {
  yield 'id,customer,total\r\n'
  const filter = status === null ? {} : { status }
  for (let after: string | null = ''; after !== null; ) {
    const query = { filter, limit: 200, ...(after !== '' && { after }) }
    const found: Awaited<ReturnType<typeof collections.query>> = await collections.query('orders', query)
    for (const order of found.data)
      yield `${[order.id, order['customer'], order['total']].map(cell).join(',')}\r\n`
    after = found.page.next
  }
}

export const fetch = async (request: Request, { tenon }: Context) => {
  const status = new URL(request.url).searchParams.get('status')
  const body = ReadableStream.from(lines(status, tenon)).pipeThrough(new TextEncoderStream())
  return new Response(body, { headers: { 'content-type': 'text/csv; charset=utf-8' } })
}
