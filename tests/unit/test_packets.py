"""The dispatcher of packets: every event counts once, whatever workers do."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.measure.packet_files import FilePlace, QueryFile
from headrace.engine.measure.packet_shares import shares
from headrace.engine.measure.packets import Packetiser
from headrace.engine.packet_sizes import Sizes
from headrace.workloads import Packet

NODES = ("node-0", "node-1", "node-2")
SIZES = Sizes(first_events=200, shortest_s=0.1, longest_s=10.0)


@st.composite
def placed_files(draw: st.DrawFn) -> list[QueryFile]:
    """Files with unknown places, copies on servers, or readable on one node alone."""
    files: list[QueryFile] = []
    for number in range(draw(st.integers(1, 5))):
        servers = tuple(draw(st.lists(st.sampled_from(NODES), unique=True, max_size=2)))
        alone = draw(st.booleans()) and len(servers) == 1
        local = {server: f"/{server}/f{number}" for server in servers if draw(st.booleans())}
        place = FilePlace(servers, local, frozenset(servers) if alone else None)
        files.append(QueryFile(f"f{number}", draw(st.integers(0, 3000)), place))
    return files


@dataclass
class Farm:
    """Workers that pull until the query is done; some of them die with a packet in their hands."""

    files: list[QueryFile]
    limit: int | None
    kept: bool
    static: bool
    cluster: int
    homes: list[str]
    held: dict[int, list[Packet]] = field(default_factory=dict[int, list[Packet]])
    busy: dict[int, Packet] = field(default_factory=dict[int, Packet])
    results: list[Packet] = field(default_factory=list[Packet])
    workers: int = 0

    def __post_init__(self) -> None:
        self.packets = Packetiser(
            self.files,
            homes=self.homes,
            sizes=SIZES,
            static=self.static,
            workers_per_server=self.limit,
            cluster_events=self.cluster,
        )
        self.of = {self.name(file.path): file for file in self.files}
        self.home: dict[int, str] = {}
        for home in self.homes:
            self.start(home)

    def start(self, home: str) -> None:
        """Start one more worker."""
        self.home[self.workers] = home
        self.held[self.workers] = []
        self.workers += 1

    @staticmethod
    def name(path: str) -> str:
        """Return the name of a file at any of its paths."""
        return path.rpartition("/")[2]

    def die(self, worker: int) -> None:
        """End a worker. If nobody else can read what is left, another starts in its place."""
        self.packets.died(worker, "killed", results_kept=self.kept)
        held = self.held.pop(worker)
        del self.busy[worker]
        if self.kept:
            self.results += held
        if self.packets.stranded(self.home[each] for each in self.held):
            self.start(self.home[worker])

    def ask(self, worker: int, now: float) -> None:
        """Let a worker report its packet and request the next."""
        if (done := self.busy.pop(worker, None)) is not None:
            self.held[worker].append(done)
        answer = self.packets.next(worker, now, self.home[worker])
        if answer == "wait":
            assert self.busy, "a worker waits though nobody reads"
        elif answer is None:
            self.results += self.held.pop(worker)
        else:
            assert isinstance(answer, Packet)
            self.busy[worker] = answer
            self.check(worker, answer)

    def check(self, worker: int, packet: Packet) -> None:
        """Check that a worker may read this packet now, and that local files came first."""
        file, home = self.of[self.name(packet.file)], self.home[worker]
        assert file.place.readable_on(home)
        assert packet.first_event % self.cluster == 0, "a packet begins where a cluster begins"
        assert packet.file == file.place.local.get(home, file.path)
        readers: Counter[str] = Counter()
        for each in self.busy.values():
            servers = self.of[self.name(each.file)].place.servers or ("",)
            if len(servers) == 1:
                readers[servers[0]] += 1
        assert self.limit is None or all(count <= self.limit for count in readers.values())
        if not self.static and self.limit is None and not self.packets.summary().deaths:
            local = [each for each in self.files if each.is_local(home) and each.left]
            assert file.is_local(home) or not local, "remote though local events are left"

    def run(self, fates: list[bool]) -> None:
        """Let workers take turns; `fates`: whether the one whose turn it is dies."""
        for turn in range(20_000):
            if not self.held:
                return
            worker = sorted(self.held)[turn % len(self.held)]
            if worker in self.busy and turn < len(fates) and fates[turn]:
                self.die(worker)
            else:
                self.ask(worker, turn * 0.01)
        raise AssertionError("the query does not end")


@given(
    files=placed_files(),
    homes=st.lists(st.sampled_from(NODES), max_size=3),
    limit=st.one_of(st.none(), st.integers(1, 2)),
    cluster=st.integers(1, 700),
    kept=st.booleans(),
    static=st.booleans(),
    fates=st.lists(st.booleans(), max_size=60),
)
def test_every_event_is_in_one_result_or_given_up(
    files: list[QueryFile],
    homes: list[str],
    limit: int | None,
    cluster: int,
    kept: bool,
    static: bool,
    fates: list[bool],
) -> None:
    """Whatever workers die; `kept`: whether their results up to their last request are known."""
    farm = Farm(files, limit, kept, static, cluster, [*NODES, *homes])
    farm.run(fates)
    summary = farm.packets.summary()
    seen = [(farm.name(each.file), each.first_event, each.events) for each in farm.results]
    seen += [(each.file, each.first_event, each.events) for each in summary.given_up]
    for file in files:
        runs = sorted((first, count) for name, first, count in seen if name == file.path)
        ends = [0, *[first + count for first, count in runs]]
        assert [first for first, _ in runs] == ends[:-1], "no event twice, none left out"
        assert ends[-1] == file.events
    assert summary.events_not_processed == sum(each.events for each in summary.given_up)
    assert summary.events == sum(each.events for each in farm.results) == farm.packets.events_done


def packetiser(files: list[QueryFile], homes: list[str], **options: bool) -> Packetiser:
    return Packetiser(files, homes=homes, sizes=SIZES, **options)


def taken(packets: Packetiser, worker: int, now: float = 1.0, home: str = "") -> Packet:
    packet = packets.next(worker, now, home)
    assert isinstance(packet, Packet)
    return packet


def test_a_faster_worker_gets_larger_packets() -> None:
    packets = packetiser([QueryFile("a", 10**6), QueryFile("b", 10**6)], ["", ""])
    taken(packets, 0, 0.0)
    taken(packets, 1, 0.0)
    fast, slow = taken(packets, 0, 0.1), taken(packets, 1, 1.0)
    assert fast.events > 5 * slow.events


def test_packets_take_a_quarter_of_the_rest_within_bounds() -> None:
    sizes = Sizes(first_events=1, shortest_s=0.5, longest_s=10.0)
    assert [sizes.time_s(left, 100.0) for left in (100_000, 2000, 400, 1)] == [10.0, 5.0, 1.0, 0.5]


def test_a_dead_worker_loses_its_packet_alone_if_it_has_returned_results() -> None:
    lost: dict[bool, int] = {}
    for kept in (True, False):
        packets = packetiser([QueryFile("a", 1000)], [""])
        for now in range(3):
            taken(packets, 0, float(now))
        packets.died(0, "killed", 3.0, results_kept=kept)
        (death,) = packets.summary(since_s=1.0).deaths
        assert (death.job, death.at_s, death.cause) == (0, 2.0, "killed")
        lost[kept] = death.events_again
        assert death.events_kept == (packets.events_done if kept else 0)
    assert lost[False] > lost[True] > 0


def test_a_remote_packet_is_from_the_server_with_the_fewest_readers() -> None:
    files = [
        QueryFile(f"{node}{number}", 10_000, FilePlace((node,))) for node in "ab" for number in "01"
    ]
    packets = packetiser(files, ["a", "a", "b", ""])
    for worker, home in enumerate(("a", "a", "b")):
        assert taken(packets, worker, home=home).file.startswith(home)
    assert taken(packets, 3).file.startswith("b")


def test_of_copies_the_one_on_the_own_node_is_read() -> None:
    packets = packetiser([QueryFile("a", 400, FilePlace(("x", "node-1", "node-0")))], ["node-0"])
    taken(packets, 0, 0.0, "node-0")
    packets.finished(0, 1.0)
    assert packets.summary().events_local == 200


def test_without_known_locations_no_share_is_local() -> None:
    packets = packetiser([QueryFile("a", 100)], [""])
    taken(packets, 0)
    assert packets.summary().events_local is None


def test_a_static_split_is_equal_and_keeps_files_on_their_nodes() -> None:
    files = [QueryFile(name, 300, FilePlace((name[0],))) for name in ("a0", "a1", "b0", "b1")]
    packets = packetiser(files, ["a", "a", "b"], static=True)
    got: dict[int, list[Packet]] = {}
    for worker, home in enumerate("aab"):
        while isinstance(packet := packets.next(worker, 1.0, home), Packet):
            got.setdefault(worker, []).append(packet)
    assert {worker: sum(each.events for each in own) for worker, own in got.items()} == {
        0: 300,
        1: 300,
        2: 600,
    }
    assert {each.file[0] for each in got[2]} == {"b"}
    assert packets.summary().events_local == 1200


def test_a_static_split_of_files_shorter_than_a_cluster_gives_each_worker_a_file() -> None:
    """The end of a file is the end of a cluster, even of one that is not full."""
    files = [QueryFile(name, 300) for name in ("f0", "f1", "f2")]
    split = shares(files, ["", "", ""], cluster_events=1000)
    assert [[(part.file.path, part.events) for part in own] for own in split] == [
        [("f0", 300)],
        [("f1", 300)],
        [("f2", 300)],
    ]
    first, second = shares([QueryFile("f", 1600)], ["", ""], cluster_events=1000)
    assert [part.events for part in first] == [1000] and [part.events for part in second] == [600]
    only, none = shares([QueryFile("f", 1050)], ["", ""], cluster_events=1000)
    assert [part.events for part in only] == [1000] and [part.events for part in none] == [50]
