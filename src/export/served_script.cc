#include "export/served_script.h"

namespace osprey {

// Suppression within a class never looks at another class, so pairs of box and class can be taken best first over all
// classes at once, in the order of the final list, until that list is full: the result is that of suppressing each
// class by itself and sorting afterwards. Few pairs are enough to fill it. `suppress` compares the best of them with
// each other at once and takes more only where too many of them fall; `walk`, one pair after the other, is for scores
// that change on the way (soft-NMS) and for lists too long to compare at once.
//
// `stretch` resizes along the first dimension, of which whole slices are gathered: copies of memory as it lies.
const char* const kServedScript = R"script(
def content_size(self, height: int, width: int) -> Tuple[int, int]:
    if self.max_dimension == 0:
        return self.height, self.width
    scale = torch.tensor(float(self.min_dimension)) / float(min(height, width))
    h = int(torch.round(scale * float(height)).item())
    w = int(torch.round(scale * float(width)).item())
    if max(h, w) > self.max_dimension:
        scale = torch.tensor(float(self.max_dimension)) / float(max(height, width))
        h = int(torch.round(scale * float(height)).item())
        w = int(torch.round(scale * float(width)).item())
    return h, w

def stretch(self, x: Tensor, size_out: int) -> Tensor:
    scale = torch.tensor(float(x.size(0)), device=x.device) / float(size_out)
    at = torch.arange(size_out, device=x.device).float() * scale
    low = torch.clamp(at.floor().long(), max=x.size(0) - 1)
    part = (at - low.float()).view([size_out, 1, 1, 1])
    first = x.index_select(0, low).float()
    second = x.index_select(0, torch.clamp(low + 1, max=x.size(0) - 1)).float()
    return second.sub_(first).mul_(part).add_(first)

def resize(self, images: Tensor) -> Tuple[Tensor, int, int]:
    h, w = self.content_size(images.size(1), images.size(2))
    x = images.permute(0, 3, 1, 2)
    if h != images.size(1) or w != images.size(2):
        columns = self.stretch(images.permute(2, 0, 1, 3).contiguous(), w)
        rows = self.stretch(columns.permute(2, 1, 0, 3).contiguous(), h)
        x = rows.add_(0.5).floor_().clamp_(0.0, 255.0).permute(1, 3, 0, 2)
    x = x.float()
    if h != self.height or w != self.width:
        x = torch.constant_pad_nd(x, [0, self.width - w, 0, self.height - h], 0.0)
    return x.contiguous(memory_format=2), h, w

def areas(self, boxes: Tensor) -> Tensor:
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])

def upright(self, boxes: Tensor) -> Tensor:
    return torch.cat([torch.minimum(boxes[..., :2], boxes[..., 2:]), torch.maximum(boxes[..., :2], boxes[..., 2:])], -1)

def inside(self, boxes: Tensor, window: Tensor) -> Tensor:
    return torch.maximum(torch.minimum(boxes, window[2:].repeat(2)), window[:2].repeat(2))

def placed(self, boxes: Tensor, window: Tensor) -> Tensor:
    if self.to_content:
        return (boxes - window[:2].repeat(2)) / (window[2:] - window[:2]).repeat(2)
    return boxes

def nothing(self, device: Device) -> Tuple[Tensor, Tensor, Tensor]:
    return (torch.zeros([self.max_total, 4], device=device), torch.full([self.max_total], self.absent_score, device=device),
            torch.zeros([self.max_total], device=device))

def overlap(self, box: Tensor, boxes: Tensor, area: Tensor) -> Tensor:
    height = torch.clamp(torch.minimum(box[2], boxes[2]) - torch.maximum(box[0], boxes[0]), min=0.0)
    width = torch.clamp(torch.minimum(box[3], boxes[3]) - torch.maximum(box[1], boxes[1]), min=0.0)
    common = height * width
    own = (box[2] - box[0]) * (box[3] - box[1])
    union = own + area - common
    return torch.where((area <= 0) | (own <= 0), torch.zeros_like(common), common / union)

def walk(self, boxes: Tensor, scores: Tensor, window: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor, int]:
    out_boxes, out_scores, out_classes = self.nothing(boxes.device)
    out_anchors = torch.zeros([self.max_total], device=boxes.device).long()
    upright = self.upright(boxes)
    area = self.areas(upright)
    live = scores.t().contiguous()
    live = torch.where(live > self.score_threshold, live, torch.full_like(live, -float("inf")))
    best, place = live.max(1)
    taken = [0] * live.size(0)
    found = 0
    while found < self.max_total:
        score = float(best.max())
        if score == -float("inf"):
            break
        c = int(best.argmax())
        i = int(place[c])
        column = min(c, boxes.size(1) - 1)
        row = live[c]
        row[i] = -float("inf")
        taken[c] += 1
        if taken[c] >= self.max_per_class:
            row.fill_(-float("inf"))
        else:
            iou = self.overlap(upright[i, column], upright[:, column].t(), area[:, column])
            if self.soft_nms_sigma > 0.0:
                row.mul_(torch.exp(-0.5 / self.soft_nms_sigma * iou * iou))
                row.masked_fill_(~(row > self.score_threshold), -float("inf"))
            else:
                row.masked_fill_(~(iou <= self.iou_threshold), -float("inf"))
        best[c] = row.max()
        place[c] = row.argmax()
        box = self.inside(boxes[i, column], window)
        if self.prune and (float(self.areas(box)) <= 0.0 or score < 0.0):
            continue
        out_boxes[found] = self.placed(box, window)
        out_scores[found] = score
        out_classes[found] = float(c)
        out_anchors[found] = i
        found += 1
    return out_boxes, out_scores, out_classes, out_anchors, found

def ranked(self, scores: Tensor, wanted: int) -> Tuple[Tensor, Tensor, Tensor, bool]:
    best = scores.max(1)[0]
    num_anchors = min(wanted, best.size(0))
    least = best.topk(num_anchors, sorted=False)[0].min()
    anchors = ((best >= least) & (best > self.score_threshold)).nonzero().squeeze(1)
    part = scores.index_select(0, anchors).t().flatten()
    num_pairs = min(wanted, part.size(0))
    complete = num_anchors == best.size(0) or bool(least <= self.score_threshold)
    pairs = (part > self.score_threshold).nonzero().squeeze(1)
    if pairs.size(0) > num_pairs:
        last = part.topk(num_pairs, sorted=False)[0].min()
        pairs = (part >= last).nonzero().squeeze(1)
        complete = False
    pairs = pairs.index_select(0, part.index_select(0, pairs).sort(stable=True, dim=0, descending=True)[1])
    classes = torch.div(pairs, max(anchors.size(0), 1), rounding_mode="floor")
    return part.index_select(0, pairs), anchors.index_select(0, pairs - classes * anchors.size(0)), classes, complete

def suppress(self, boxes: Tensor, scores: Tensor, window: Tensor) -> Tuple[Tensor, Tensor, Tensor, int]:
    labels = torch.zeros([0], device=boxes.device).long()
    if self.class_agnostic:
        scores, labels = scores.max(1, keepdim=True)
        labels = labels.squeeze(1)
        if boxes.size(1) > 1:
            boxes = boxes[torch.arange(labels.size(0), device=boxes.device), labels].unsqueeze(1)
    wanted = 4 * self.max_total
    while self.soft_nms_sigma == 0.0 and wanted <= 4096:
        score, anchors, classes, complete = self.ranked(scores, wanted)
        if score.size(0) > 4096:
            break
        picked = boxes[anchors, torch.clamp(classes, max=boxes.size(1) - 1)]
        corners = self.upright(picked).t().contiguous()
        area = (corners[2] - corners[0]) * (corners[3] - corners[1])
        same = (classes.unsqueeze(1) == classes).triu(1)
        rivals = (same & ~(self.overlap(corners.unsqueeze(2), corners, area) <= self.iou_threshold)).float()
        kept = torch.zeros_like(classes) > 0
        left = ~kept
        while not torch.equal(left, kept):
            kept = left
            left = torch.mv(rivals.t(), kept.float()) == 0
        if self.prune or self.max_per_class < self.max_total:
            kept = kept & (torch.mv(same.float().t(), kept.float()) < self.max_per_class)
        clipped = self.inside(picked, window)
        if self.prune:
            kept = kept & (self.areas(clipped) > 0.0) & (score >= 0.0)
        chosen = kept.nonzero().squeeze(1)[:self.max_total]
        found = chosen.size(0)
        if found == self.max_total or complete:
            out_boxes, out_scores, out_classes = self.nothing(boxes.device)
            out_boxes[:found] = self.placed(clipped.index_select(0, chosen), window)
            out_scores[:found] = score.index_select(0, chosen)
            if self.class_agnostic:
                classes = labels.index_select(0, anchors)
            out_classes[:found] = classes.index_select(0, chosen).float()
            return out_boxes, out_scores, out_classes, found
        wanted *= 4
    out_boxes, out_scores, out_classes, out_anchors, found = self.walk(boxes, scores, window)
    if self.class_agnostic:
        out_classes[:found] = labels.index_select(0, out_anchors[:found]).float()
    return out_boxes, out_scores, out_classes, found

def forward(self, image: Tensor) -> Dict[str, Tensor]:
    images, h, w = self.resize(image)
    shapes = torch.tensor([[h, w]], device=image.device).repeat(image.size(0), 1)
    boxes, scores = self.net.forward(images, shapes)
    window = torch.tensor([0.0, 0.0, float(h) / float(self.height), float(w) / float(self.width)], device=image.device)
    all_boxes: List[Tensor] = []
    all_scores: List[Tensor] = []
    all_classes: List[Tensor] = []
    counts: List[float] = []
    for b in range(image.size(0)):
        one = self.suppress(boxes[b], scores[b], window)
        all_boxes.append(one[0])
        all_scores.append(one[1])
        all_classes.append(torch.where(torch.arange(self.max_total, device=image.device) < one[3], one[2] + 1.0, one[2]))
        counts.append(float(one[3]))
    return {
        "num_detections": torch.tensor(counts, device=image.device),
        "detection_boxes": torch.stack(all_boxes),
        "detection_scores": torch.stack(all_scores),
        "detection_classes": torch.stack(all_classes)}
)script";

}  // namespace osprey
