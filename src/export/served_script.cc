#include "export/served_script.h"

namespace osprey {

// Suppression walks over all classes at once, best score first. Suppression within a class never looks at another
// class, so the detections come in the order of the final list and the walk can stop as soon as that list is full: the
// result is that of suppressing each class by itself and sorting afterwards, without sorting anything.
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

def taps(self, size_in: int, size_out: int, device: Device) -> Tuple[Tensor, Tensor, Tensor]:
    scale = torch.tensor(float(size_in), device=device) / float(size_out)
    at = torch.arange(size_out, device=device).float() * scale
    low = torch.clamp(at.floor().long(), max=size_in - 1)
    return low, torch.clamp(low + 1, max=size_in - 1), at - low.float()

def resize(self, images: Tensor) -> Tuple[Tensor, int, int]:
    h, w = self.content_size(images.size(1), images.size(2))
    x = images.permute(0, 3, 1, 2).float()
    if h != images.size(1) or w != images.size(2):
        left, right, part = self.taps(x.size(3), w, x.device)
        x_left = x.index_select(3, left)
        x = x_left + (x.index_select(3, right) - x_left) * part
        top, bottom, part = self.taps(x.size(2), h, x.device)
        part = part.unsqueeze(1)
        x_top = x.index_select(2, top)
        x = x_top + (x.index_select(2, bottom) - x_top) * part
        x = torch.clamp(torch.floor(x + 0.5), 0.0, 255.0)
    x = torch.constant_pad_nd(x, [0, self.width - w, 0, self.height - h], 0.0)
    return x.contiguous(memory_format=2), h, w

def areas(self, boxes: Tensor) -> Tensor:
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])

def overlap(self, box: Tensor, boxes: Tensor, area: Tensor) -> Tensor:
    high = torch.minimum(box[2:], boxes[:, 2:])
    low = torch.maximum(box[:2], boxes[:, :2])
    side = torch.clamp(high - low, min=0.0)
    common = side[:, 0] * side[:, 1]
    own = (box[2] - box[0]) * (box[3] - box[1])
    union = own + area - common
    return torch.where((area > 0) & (own > 0), common / union, torch.zeros_like(common))

def suppress(self, boxes: Tensor, scores: Tensor, window: Tensor) -> Tuple[Tensor, Tensor, Tensor, int]:
    out_boxes = torch.zeros([self.max_total, 4], device=boxes.device)
    out_scores = torch.full([self.max_total], self.absent_score, device=boxes.device)
    out_classes = torch.zeros([self.max_total], device=boxes.device)
    labels = torch.zeros([scores.size(0)], device=boxes.device).long()
    if self.class_agnostic:
        scores, labels = scores.max(1, keepdim=True)
        labels = labels.squeeze(1)
    low = torch.minimum(boxes[..., :2], boxes[..., 2:])
    upright = torch.cat([low, torch.maximum(boxes[..., :2], boxes[..., 2:])], -1)
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
            iou = self.overlap(upright[i, column], upright[:, column], area[:, column])
            if self.soft_nms_sigma > 0.0:
                row.mul_(torch.exp(-0.5 / self.soft_nms_sigma * iou * iou))
                row.masked_fill_(~(row > self.score_threshold), -float("inf"))
            else:
                row.masked_fill_(iou > self.iou_threshold, -float("inf"))
        best[c] = row.max()
        place[c] = row.argmax()
        box = boxes[i, column]
        low_corner = torch.cat([window[:2], window[:2]])
        box = torch.maximum(torch.minimum(box, torch.cat([window[2:], window[2:]])), low_corner)
        if self.prune and (float(self.areas(box)) <= 0.0 or score < 0.0):
            continue
        if self.to_content:
            size = window[2:] - window[:2]
            box = (box - low_corner) / torch.cat([size, size])
        out_boxes[found] = box
        out_scores[found] = score
        out_classes[found] = float(labels[i]) if self.class_agnostic else float(c)
        found += 1
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
