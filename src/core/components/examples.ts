/** Values of the examples in OpenAPI documents: one story, of a tennis club that lends its courts. */

/** Ids of the things in the story. */
export const EXAMPLE_ID = {
  tenant: 'ten_01kjpwf170e008000106aw7x36',
  workspace: 'ws_01kjpwgvt0e0080003e2d9w8s8',
  key: 'key_01kjpwjpd0e00800004z3v73kk',
  function: 'fn_01kjpwmh00e00800006mptsaxq',
  flow: 'flow_01kjpwpbk0e0080003mdfgh35f',
  execution: 'run_01kjpwr660e0080000cd0z7566',
  run: 'run_01kjpwt0s0e0080000smaccpz5',
  bulkChange: 'bulk_01kjpwvvc0e0080000y5b1m275',
  approval: 'apr_01kjpwxnz0e0080003ggg1fpsf',
  mcpServer: 'mcp_01kjpwzgj0e0080002ydpzdzy8',
  source: 'src_01kjpx1b50e008000165any3ss',
  trigger: 'trg_01kjpx35r0e0080003mq9z91sd',
  schedule: 'sch_01kjpx50b0e0080000ht0e7pqg',
  schema: 'sch_01kjpx6ty0e0080001bwch20br',
  operation: 'op_01kjpx8nh0e0080003387re4zc',
  removal: 'del_01kjpxag40e00800030yfaq3kt',
  event: 'evt_01kjpxcaq0e0080001mh8q66vm',
  request: 'req_01kjpxe5a0e0080000h1skhcza',
  agent: 'agent_01kjpxfzx0e00800028a7hxvdt',
  account: 'acct_01kjpxhtg0e0080000c1hcec08',
  user: 'usr_01kjpxkn30e0080002hvhg0xb9',
  client: 'client_01kjpxnfp0e0080002vg4zwf73',
  session: 'ses_01kjpxqa90e0080002r397qfyb',
  /** A booking. */
  booking: '019caddc-9380-7000-8000-035b11415415',
  court: '019caddd-7de0-7000-8000-022ff6f5e24c',
  trace: '4bf92f3577b34da6a3ce929d0e0e4736',
} as const

/** Times of the story: something was created, then changed, and ends later. */
export const EXAMPLE_TIME = {
  created: '2026-03-02T09:00:00.000Z',
  updated: '2026-03-02T09:30:00.000Z',
  ended: '2026-03-02T09:31:00.000Z',
  later: '2026-04-01T09:00:00.000Z',
} as const

/** A digest in an example: SHA-256 of the text `booking`. */
export const EXAMPLE_DIGEST = '001d057c49888db925f47ba4f0cbb75edf527893381dc5a27d7a965c766508c4'
