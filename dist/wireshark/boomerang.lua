-- Boomerang for Wireshark: reservations inside ICMP echo (draft-bergkvist-boomerang-spec-00; docs/boomerang.md has the
-- fields and what the draft leaves open).
--
-- Copy this file into Wireshark's folder of personal or global Lua plugins, or name it: wireshark -X lua_script:boomerang.lua
-- Filters: boomerang, boomerang.nack == 1, boomerang.forward > 1000000.

local boomerang = Proto("boomerang", "Boomerang reservation")

local MAGIC = 0x47114711
local RESERVATION = 0x10
local BITRATE, DOWNGRADE = 0x10, 0x30
-- Echo messages, by type: the family of the container, and the direction.
local ECHO = {
  [8] = { family = 0x02, address = 4, word = "request", v6 = false },
  [0] = { family = 0x02, address = 4, word = "reply", v6 = false },
  [128] = { family = 0x0a, address = 16, word = "request", v6 = true },
  [129] = { family = 0x0a, address = 16, word = "reply", v6 = true },
}

local fields = {
  transaction = ProtoField.uint32("boomerang.transaction", "Transaction", base.HEX),
  kind = ProtoField.uint8("boomerang.type", "Type", base.HEX, { [0x10] = "BOOMERANG_RESERVATION", [0x20] = "MARKER_SETUP" }),
  format = ProtoField.uint8("boomerang.format", "Format", base.HEX, {
    [0x12] = "IPv4, BITRATE", [0x1a] = "IPv6, BITRATE", [0x32] = "IPv4, DOWNGRADE", [0x3a] = "IPv6, DOWNGRADE",
  }),
  flags = ProtoField.uint16("boomerang.flags", "Flags", base.HEX),
  nack = ProtoField.bool("boomerang.nack", "NACK: a node could not reserve", 16, nil, 0x0001),
  no_echo = ProtoField.bool("boomerang.no_echo", "NO_ECHO: the far end does not answer", 16, nil, 0x0002),
  refresh = ProtoField.uint8("boomerang.refresh", "Refresh interval (s)"),
  version = ProtoField.uint8("boomerang.version", "Version"),
  key = ProtoField.uint64("boomerang.key", "KEY"),
  forward = ProtoField.uint32("boomerang.forward", "Forward (bit/s)"),
  reverse = ProtoField.uint32("boomerang.reverse", "Reverse (bit/s)"),
  pairs = ProtoField.uint8("boomerang.downgrade.size", "Pairs"),
  policy = ProtoField.uint16("boomerang.downgrade.policy", "Policy"),
  option = ProtoField.uint16("boomerang.option.type", "Option", base.HEX, {
    [0x0001] = "Boomerang_UID", [0x0002] = "RESV_AGGREGATION", [0x8001] = "AUTH", [0x8002] = "HOPS",
  }),
  option_flags = ProtoField.uint16("boomerang.option.flags", "Flags, or the length of the body"),
  option_body = ProtoField.bytes("boomerang.option.body", "Body"),
  user = ProtoField.uint64("boomerang.uid.user", "User ID", base.HEX),
  credential = ProtoField.uint64("boomerang.uid.credential", "Credential", base.HEX),
  aggregate_transaction = ProtoField.uint32("boomerang.aggregate.transaction", "Transaction", base.HEX),
  aggregate_rate = ProtoField.uint32("boomerang.aggregate.rate", "Rate (bit/s)"),
  auth_key = ProtoField.uint32("boomerang.auth.key", "Key id"),
  auth_sequence = ProtoField.uint64("boomerang.auth.sequence", "Sequence"),
  auth_forward = ProtoField.uint32("boomerang.auth.forward", "Forward as it was asked (bit/s)"),
  auth_reverse = ProtoField.uint32("boomerang.auth.reverse", "Reverse as it was asked (bit/s)"),
  auth_refresh = ProtoField.uint8("boomerang.auth.refresh", "Refresh as it was asked (s)"),
  auth_origin = ProtoField.bytes("boomerang.auth.origin", "Origin digest"),
  auth_hop = ProtoField.bytes("boomerang.auth.hop", "Hop digest"),
  hops_out = ProtoField.uint16("boomerang.hops.forward", "Aware nodes on the way out"),
  hops_back = ProtoField.uint16("boomerang.hops.reverse", "Aware nodes on the way back"),
  rest = ProtoField.bytes("boomerang.remainder", "Not decoded"),
}
-- Classifier and Mask have one layout each; an aggregate has both, too.
for _, part in ipairs({ "classifier", "mask", "aggregate.classifier", "aggregate.mask" }) do
  local abbreviation, name = "boomerang." .. part, part:gsub("^%l", string.upper)
  fields[part .. "4_src"] = ProtoField.ipv4(abbreviation .. ".src", name .. ": source")
  fields[part .. "4_dst"] = ProtoField.ipv4(abbreviation .. ".dst", name .. ": destination")
  fields[part .. "16_src"] = ProtoField.ipv6(abbreviation .. ".src6", name .. ": source")
  fields[part .. "16_dst"] = ProtoField.ipv6(abbreviation .. ".dst6", name .. ": destination")
  fields[part .. "_sport"] = ProtoField.uint16(abbreviation .. ".sport", name .. ": source port")
  fields[part .. "_dport"] = ProtoField.uint16(abbreviation .. ".dport", name .. ": destination port")
  fields[part .. "_protocol"] = ProtoField.uint8(abbreviation .. ".protocol", name .. ": protocol")
  fields[part .. "_tos"] = ProtoField.uint8(abbreviation .. ".tos", name .. ": TOS", base.HEX)
  fields[part .. "_flags"] = ProtoField.uint16(abbreviation .. ".flags", name .. ": flags", base.HEX)
end
for _, part in ipairs({ "aggregate" }) do
  fields[part .. "4_address"] = ProtoField.ipv4("boomerang.aggregate.address", "Aggregating node")
  fields[part .. "16_address"] = ProtoField.ipv6("boomerang.aggregate.address6", "Aggregating node")
end
boomerang.fields = fields

local odd = ProtoExpert.new("boomerang.malformed", "Not a whole Boomerang message: a ping to every node", expert.group.MALFORMED, expert.severity.WARN)
boomerang.experts = { odd }

local icmp_type, icmpv6_type = Field.new("icmp.type"), Field.new("icmpv6.type")
local ip_length, ipv6_length = Field.new("ip.len"), Field.new("ipv6.plen")

-- The end of the packet: a frame may be padded, or end with a check sequence.
local function packet_end(whole, v6)
  local all = v6 and { ipv6_length() } or { ip_length() }
  local last = all[#all]
  if not last then return whole end
  return math.min(whole, v6 and last.offset + 36 + last.value or last.offset - 2 + last.value)
end

-- Adds a Classifier or Mask; its length.
local function selector(tree, part, bytes, at, address)
  local length = 2 * address + 8
  local branch = tree:add(boomerang, bytes(at, length), (part:gsub("^%l", string.upper)))
  branch:add(fields[part .. address .. "_src"], bytes(at, address))
  branch:add(fields[part .. address .. "_dst"], bytes(at + address, address))
  local ports = at + 2 * address
  branch:add(fields[part .. "_sport"], bytes(ports, 2))
  branch:add(fields[part .. "_dport"], bytes(ports + 2, 2))
  branch:add(fields[part .. "_protocol"], bytes(ports + 4, 1))
  branch:add(fields[part .. "_tos"], bytes(ports + 5, 1))
  branch:add(fields[part .. "_flags"], bytes(ports + 6, 2))
  return length
end

local function pair(tree, bytes, at)
  tree:add(fields.forward, bytes(at, 4))
  tree:add(fields.reverse, bytes(at + 4, 4))
end

-- The bodies of options whose layout is known; each gets the place of the body.
local body = {}
body[0x0001] = function(tree, bytes, at)
  tree:add(fields.user, bytes(at, 8))
  tree:add(fields.credential, bytes(at + 8, 8))
end
body[0x0002] = function(tree, bytes, at, address)
  tree:add(fields["aggregate" .. address .. "_address"], bytes(at, address))
  tree:add(fields.aggregate_transaction, bytes(at + address, 4))
  local place = at + address + 4
  place = place + selector(tree, "aggregate.classifier", bytes, place, address)
  place = place + selector(tree, "aggregate.mask", bytes, place, address)
  tree:add(fields.aggregate_rate, bytes(place, 4))
end
body[0x8001] = function(tree, bytes, at)
  tree:add(fields.auth_key, bytes(at, 4))
  tree:add(fields.auth_sequence, bytes(at + 4, 8))
  tree:add(fields.auth_forward, bytes(at + 12, 4))
  tree:add(fields.auth_reverse, bytes(at + 16, 4))
  tree:add(fields.auth_refresh, bytes(at + 20, 1))
  tree:add(fields.auth_origin, bytes(at + 24, 32))
  tree:add(fields.auth_hop, bytes(at + 56, 16))
end
body[0x8002] = function(tree, bytes, at)
  tree:add(fields.hops_out, bytes(at, 2))
  tree:add(fields.hops_back, bytes(at + 2, 2))
end

-- The length of a body: fixed by the draft, or said in the flags; nil: an unknown option of the draft.
local function body_length(kind, flags, address)
  if kind == 0x0001 then return 16 end
  if kind == 0x0002 then return 5 * address + 24 end
  if kind >= 0x8000 then return flags end
  return nil
end

-- Our options of these types have bodies of these lengths; another length is unknown, and passed over.
local LENGTHS = { [0x8001] = 72, [0x8002] = 4 }

local function options(tree, bytes, at, finish, address)
  while at + 4 <= finish do
    local kind, flags = bytes(at, 2):uint(), bytes(at + 2, 2):uint()
    local length = body_length(kind, flags, address)
    if not length or at + 4 + length > finish then break end
    local branch = tree:add(boomerang, bytes(at, 4 + length), "Option")
    branch:add(fields.option, bytes(at, 2))
    branch:add(fields.option_flags, bytes(at + 2, 2))
    local known = body[kind] and (not LENGTHS[kind] or LENGTHS[kind] == length)
    if known then
      body[kind](branch, bytes, at + 4, address)
    elseif length > 0 then
      branch:add(fields.option_body, bytes(at + 4, length))
    end
    at = at + 4 + length
  end
  if at < finish then tree:add(fields.rest, bytes(at, finish - at)) end
end

-- The pairs of a DOWNGRADE vector, none of which may rise; their end, or nil.
local function vector(bytes, at, finish)
  if at + 4 > finish then return nil end
  local size = bytes(at, 1):uint()
  local last = at + 4 + 8 * size
  if size == 0 or last > finish then return nil end
  for place = at + 12, last - 8, 8 do
    if bytes(place, 4):uint() > bytes(place - 8, 4):uint() or bytes(place + 4, 4):uint() > bytes(place - 4, 4):uint() then
      return nil
    end
  end
  return last
end

function boomerang.dissector(bytes, pinfo, root)
  local found = icmp_type() or icmpv6_type()
  if not found then return end
  local at, finish = found.offset, packet_end(bytes:len(), icmp_type() == nil)
  local echo = ECHO[found.value]
  if not echo or echo.v6 ~= (icmp_type() == nil) or at + 12 > finish or bytes(at + 1, 1):uint() ~= 0 then return end
  if bytes(at + 8, 4):uint() ~= MAGIC then return end

  pinfo.cols.protocol = "Boomerang"
  local address = echo.address
  local length = 2 * address + 8
  local tree = root:add(boomerang, bytes(at + 8, finish - at - 8))
  local form = at + 18 <= finish and bytes(at + 17, 1):uint() or 0
  local qos = at + 32 + 2 * length
  local quality = bit32 and bit32.band(form, 0xf0) or (form - form % 16)
  local last = nil
  if quality == BITRATE and qos + 8 <= finish then last = qos + 8 end
  if quality == DOWNGRADE then last = vector(bytes, qos, finish) end
  if not last or bytes(at + 16, 1):uint() ~= RESERVATION or form % 16 ~= echo.family or bytes(at + 21, 1):uint() ~= 1 then
    tree:add_proto_expert_info(odd)
    return
  end

  tree:add(fields.transaction, bytes(at + 12, 4))
  tree:add(fields.kind, bytes(at + 16, 1))
  tree:add(fields.format, bytes(at + 17, 1))
  local flags = tree:add(fields.flags, bytes(at + 18, 2))
  flags:add(fields.nack, bytes(at + 18, 2))
  flags:add(fields.no_echo, bytes(at + 18, 2))
  tree:add(fields.refresh, bytes(at + 20, 1))
  tree:add(fields.version, bytes(at + 21, 1))
  tree:add(fields.key, bytes(at + 24, 8))
  selector(tree, "classifier", bytes, at + 32, address)
  selector(tree, "mask", bytes, at + 32 + length, address)
  if quality == BITRATE then
    pair(tree, bytes, qos)
  else
    tree:add(fields.pairs, bytes(qos, 1))
    tree:add(fields.policy, bytes(qos + 1, 2))
    for place = qos + 4, last - 8, 8 do pair(tree, bytes, place) end
  end
  options(tree, bytes, last, finish, address)

  local first = quality == BITRATE and qos or qos + 4
  local refused = bytes(at + 18, 2):uint() % 2 == 1 and ", refused" or ""
  pinfo.cols.info = string.format("%s: %u bit/s forward, %u back, again in %u s%s", echo.word,
    bytes(first, 4):uint(), bytes(first + 4, 4):uint(), bytes(at + 20, 1):uint(), refused)
end

register_postdissector(boomerang)
