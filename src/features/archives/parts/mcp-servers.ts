/** The MCP servers of a workspace in an archive, behind the sources of their tools; and behind them their versions. None serves anybody. */

import { allSources, restoreSource, SourceLine } from '../../mcp-servers/remote/sources-transfer.ts'
import {
  allServers,
  allServerVersions,
  functionsIn,
  restoreServer,
  restoreServerVersion,
  ServerLine,
  ServerVersionLine,
} from '../../mcp-servers/servers-transfer.ts'
import { jsonOf } from '../format/layout.ts'
import { linesOf, type Part } from '../part.ts'

export const MCP_SERVERS: Part = {
  members: {
    'mcp-sources': linesOf(jsonOf(SourceLine), {
      count: 'mcp_sources',
      check: (checks, { id }, member) => checks.next('mcp_sources', id, member),
      store: ({ structure }, source) => restoreSource(structure, source),
    }),
    'mcp-servers': linesOf(jsonOf(ServerLine), {
      count: 'mcp_servers',
      check: (checks, { id, active_version: active, latest_version: latest }, member) => {
        checks.next('mcp_servers', id, member)
        checks.servers.declare(id, { latest, used: active === null ? [] : [active] }, member)
      },
      store: async (into, server) => {
        for (const what of await restoreServer(into, server)) into.missing(what)
      },
    }),
    'mcp-server-versions': linesOf(jsonOf(ServerVersionLine), {
      count: 'mcp_server_versions',
      check: (checks, { server_id, version, manifest }, member) => {
        checks.servers.add(server_id, version, member)
        for (const { id, version: called } of functionsIn(manifest)) checks.functions.use(id, called)
      },
      store: (into, version) => restoreServerVersion(into, version),
    }),
  },

  async *write(writer, { structure }) {
    yield* writer.lines('mcp-sources', allSources(structure), 'mcp_sources')
    yield* writer.lines('mcp-servers', allServers(structure), 'mcp_servers')
    const versions = async function* () {
      for await (const { id } of allServers(structure)) yield* allServerVersions(structure, id)
    }
    yield* writer.lines('mcp-server-versions', versions(), 'mcp_server_versions')
  },
}
